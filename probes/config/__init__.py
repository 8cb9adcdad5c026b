"""The configuration: its schema, the types and checks of its fields, its YAML, its presets."""
