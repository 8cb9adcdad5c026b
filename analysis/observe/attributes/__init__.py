"""Questions put to stored images, and the readers that answer them (DALL-Eval, Cho et al. 2023), in ``attributes/``."""
