"""What is asked of stored images: questions with their readings, and the options that say who is asked."""
