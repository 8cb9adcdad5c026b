"""What is read from images beyond objects: options of questions, skin tone and captions (DALL-Eval). Imports no torch."""
