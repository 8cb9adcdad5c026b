"""Execution of a stage's parts: here, in several processes, on a cluster."""
