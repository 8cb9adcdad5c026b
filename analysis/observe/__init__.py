"""Observers: vision models that annotate stored images; results are stored beside the images."""
