"""Training of the model whose visual skills are known."""
