"""Benchmark models with professions, made of `toyworld` and `toyworld-null` by low-rank changes and new words."""
