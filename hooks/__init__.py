"""What happens inside one forward pass of a diffusion pipeline: sites, captures, word maps."""
