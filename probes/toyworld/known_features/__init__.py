"""A benchmark model in which each attribute is a known direction at a named site."""
