"""Visual skills after PaintSkills (Cho et al. 2023): objects, counts, relations."""
