"""How the bundled models are made, and how the tool is held against known answers; not installed."""
