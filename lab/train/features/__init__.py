"""Toyworld's networks for features of images: a small ResNet and a small DINO, trained on its renderings."""
