"""Answers to questions about images, by models or by toyworld's checker (DALL-Eval)."""
