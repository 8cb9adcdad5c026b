"""How objects are detected: which detector, what it is asked, what it takes."""
