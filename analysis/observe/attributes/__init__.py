"""What is read from an image beyond objects and features: answers to questions, and skin tone (DALL-Eval)."""
