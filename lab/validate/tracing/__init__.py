"""A trace held against known answers."""
