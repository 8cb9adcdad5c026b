"""The stage measure: from a run to named tables."""
