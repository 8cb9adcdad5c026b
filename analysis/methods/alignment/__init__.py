"""Image-text alignment and image quality of a run (DALL-Eval, Cho et al. 2023, appendix D)."""
