"""Metrics: arrays or tables in, numbers out. Knows no run and no interval."""
