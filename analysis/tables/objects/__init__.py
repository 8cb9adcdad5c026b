"""Tables of detected objects: dependency groups, tests, claims, and the tables of Wu et al. 2025."""
