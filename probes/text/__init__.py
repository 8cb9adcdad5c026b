"""The language of prompts."""
