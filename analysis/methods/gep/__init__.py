"""Audits of attributes (GEP): labels of people, and several runs side by side."""
