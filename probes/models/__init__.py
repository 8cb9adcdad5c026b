"""Models: where they come from, what they are, what they need, how they are loaded and edited."""
