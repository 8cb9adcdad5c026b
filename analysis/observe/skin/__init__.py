"""Skin tone: which pixels are skin, and their tone."""
