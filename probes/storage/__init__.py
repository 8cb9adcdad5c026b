"""Holds of run directories."""
