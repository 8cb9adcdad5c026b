"""The words of a prompt as a text encoder sees them, and their maps."""
