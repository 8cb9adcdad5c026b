"""Races: which of several models leans most or least, while those that are surely behind are drawn no further."""
