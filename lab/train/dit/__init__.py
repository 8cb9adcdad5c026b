"""Training of the diffusion transformers of the toy world."""
