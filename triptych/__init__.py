"""Internal-representation probing of text-to-image diffusion models with triplet prompts."""
