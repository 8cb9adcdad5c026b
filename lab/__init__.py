"""Making of the bundled models, and comparison of the tool with known answers; not installed."""
