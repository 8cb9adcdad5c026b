"""Pages of the documentation that are written by a program."""
