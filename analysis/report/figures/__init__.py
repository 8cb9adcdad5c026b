"""Figures, drawn from tables only: nothing here computes a statistic."""
