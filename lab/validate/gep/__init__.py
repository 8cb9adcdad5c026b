"""Audits of attributes (GEP) of the toyworld specimens: every estimate held against what the checker sees."""
