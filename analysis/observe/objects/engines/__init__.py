"""Detection of objects: the detector and its tags."""
