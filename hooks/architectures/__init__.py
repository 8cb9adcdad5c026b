"""Architectures: the meaning of a site's address in a model, one module per architecture."""
