"""Runs on the same prompts, compared with each other."""
