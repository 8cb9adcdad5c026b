"""From a run to named tables."""
