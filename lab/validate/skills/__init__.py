"""PaintSkills in the toy world: how well skills are judged on rendered scenes."""
