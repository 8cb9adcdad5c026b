"""Runs on the same prompts, held against each other."""
