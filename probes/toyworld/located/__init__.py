"""Benchmark models whose location is known: where the indicator word enters is decided by wiring."""
