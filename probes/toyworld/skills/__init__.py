"""PaintSkills in two dimensions: scenes of objects alone, their checker, and the benchmark model trained on them."""
