"""A small world whose biases are planted, and diffusion models really trained on it."""
