"""Every reported quantity held against the bundled models."""
