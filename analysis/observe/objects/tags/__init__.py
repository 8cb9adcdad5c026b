"""Tags to look for: vocabularies, taggers, captions."""
