"""Object findings compared with what was planted."""
