"""Readings of skin tone compared with known colours: the ten Monk tones on a card, and toyworld's three skins."""
