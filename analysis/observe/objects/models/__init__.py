"""The networks that detect and segment objects."""
