"""The stages that make images: generate, external images, trace."""
