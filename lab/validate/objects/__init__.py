"""Object findings held against what was planted."""
