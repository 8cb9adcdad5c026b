"""What is read from images beyond objects: options of questions and of skin tone (DALL-Eval). Imports no torch."""
