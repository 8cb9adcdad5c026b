"""Detection of objects: the detector, its tags, its cost."""
