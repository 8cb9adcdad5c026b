"""How the readers of an audit of professions, and the rules of its tones, are called in text."""

from __future__ import annotations

from probes.prompts.diagnostic import NONE

NAMED = {
    "human": "people",
    "toyworld-checker": "the toyworld checker",
    "blip2": "BLIP-2",
    "toyworld-vqa": "toyworld’s VQA model",
    "clip": "CLIP (zero-shot)",
    "ita": "the typology angle",
    "ciede2000": "CIEDE2000",
    "dalleval2023": "the published code’s reading",
}


def named(source: str) -> str:
    """Return a reader or rule in words; one that is not known by its name.

    >>> named("blip2"), named("mine")
    ('BLIP-2', 'mine')
    """
    return NAMED.get(source, source)


def profession(name: str) -> str:
    """Return a profession as pages, figures and LaTeX call it; the level of a prompt that names none in words.

    >>> profession("(none)"), profession("nurse")
    ('no profession', 'nurse')
    """
    return "no profession" if name == NONE else name
