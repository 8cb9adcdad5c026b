"""Diffusion transformers of the toy world, in the layout of Stable Diffusion 3: two CLIP towers and a T5."""
