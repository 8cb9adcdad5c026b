"""Audits of attributes (GEP) of the toyworld benchmark models: every estimate held against what the checker sees."""
