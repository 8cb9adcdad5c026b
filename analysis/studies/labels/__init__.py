"""Labels that people give to images: one form of table, one reader, one sheet."""
