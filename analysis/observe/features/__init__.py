"""Features of images: vectors by which they are compared (Wu et al. 2025, section 4.1.3), stored in ``features/``."""
