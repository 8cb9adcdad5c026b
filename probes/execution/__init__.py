"""Execution of a stage's parts: here, in several processes, in shards, on a cluster."""
