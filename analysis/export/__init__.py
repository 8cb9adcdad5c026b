"""Runs in the formats of other programs, and as cards, one row each in `analysis.export.exporting`."""
