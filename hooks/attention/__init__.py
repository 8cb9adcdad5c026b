"""Cross-attention: which of it is kept, how it is summed, and the maps and masks made of it."""
