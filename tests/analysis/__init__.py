"""Tests of ``analysis``."""
