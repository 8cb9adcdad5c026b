"""Types of the fields of a configuration, YAML with lines, and one formatter of errors."""
