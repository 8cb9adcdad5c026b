"""Sparse autoencoders of stored activations: training, held-out scores, figures."""
