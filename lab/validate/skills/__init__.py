"""PaintSkills in the toy world: how well skills are judged, and how well `toyworld-skills` draws them."""
