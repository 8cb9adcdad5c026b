"""PaintSkills in two dimensions: scenes of objects alone, what reads them, and the specimen taught on them."""
