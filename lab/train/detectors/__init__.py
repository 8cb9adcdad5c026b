"""Toyworld's own detectors: a small Segment Anything and a small Grounding DINO, trained on its renderings.

What is in a rendering is known exactly, so boxes, labels and masks need no annotator. Both models are the classes of
the packages that the real checkpoints are loaded into, with small settings.
"""
