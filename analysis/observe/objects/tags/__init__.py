"""Which objects are looked for: vocabularies, taggers, captions."""
