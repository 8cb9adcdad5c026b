"""Sensitivity of a run's findings to choices in measuring."""
