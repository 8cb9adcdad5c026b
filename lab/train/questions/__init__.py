"""Toyworld's small network that answers questions about its images: trained on renderings, held against the checker."""
