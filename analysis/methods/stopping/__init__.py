"""Runs that end when a question is answered: what is asked, and intervals that hold at every look."""
