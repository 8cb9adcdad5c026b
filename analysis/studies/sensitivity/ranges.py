"""Ranges over which the choices made in measuring objects are moved."""

THETAS = (0.25, 0.3, 0.35, 0.4, 0.45)
SIGMAS = (0.5, 0.6, 0.7, 0.8, 0.9)
SIGMAS_HUMAN = (0.15, 0.25, 0.35)
LEAST_SCORES = (0.25, 0.3, 0.35, 0.4, 0.5)
