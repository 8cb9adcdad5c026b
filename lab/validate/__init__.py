"""The tool compared with known answers."""
