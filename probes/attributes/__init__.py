"""What is read from images beyond objects: options of questions, skin tone, captions (DALL-Eval). No torch."""
