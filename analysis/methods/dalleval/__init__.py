"""Social bias after DALL-Eval (Cho et al. 2023): gender, skin tone and attributes of professions."""
