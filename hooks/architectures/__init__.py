"""What the address of a site means in a model: one module an architecture."""
