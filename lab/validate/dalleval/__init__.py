"""The audit by professions compared with benchmark models whose answer is known."""
