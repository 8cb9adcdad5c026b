"""Captions of images, written by a model."""
