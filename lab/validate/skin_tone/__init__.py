"""Readings of skin tone held against known colours: the ten Monk tones on a card, and toyworld's three skins."""
