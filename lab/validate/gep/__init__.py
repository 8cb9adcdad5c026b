"""Audits of attributes (GEP) of the toyworld benchmark models: every estimate compared with what the checker sees."""
