"""The run directory: its parts, their schemas, its record, and the one reader of all of it."""
