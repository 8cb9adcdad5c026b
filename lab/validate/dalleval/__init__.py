"""The audit by professions held against specimens whose answer is known."""
