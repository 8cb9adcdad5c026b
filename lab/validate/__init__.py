"""The instrument held against known answers."""
