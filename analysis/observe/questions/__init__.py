"""What is read from an image beyond objects and features: answers to questions, skin tone, captions (DALL-Eval)."""
