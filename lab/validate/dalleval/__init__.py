"""The audit by professions held against benchmark models whose answer is known."""
