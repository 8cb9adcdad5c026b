"""Training of models whose bias sits at a known place."""
