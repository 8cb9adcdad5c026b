"""Toyworld's small network that answers questions about its images, trained on renderings."""
