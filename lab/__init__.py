"""How the bundled models are made, and how the tool is compared with known answers; not installed."""
