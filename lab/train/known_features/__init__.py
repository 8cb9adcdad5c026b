"""Training of the model in which each attribute is a known direction."""
