"""Every reported quantity compared with the bundled models."""
