"""A trace compared with known answers."""
