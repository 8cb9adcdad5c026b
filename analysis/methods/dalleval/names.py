"""How the readers of an audit of professions, and the rules of its tones, are called in text."""

from __future__ import annotations

import pandas as pd

from analysis.methods.dalleval.scores import kind_of
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


def first_source(table: pd.DataFrame, kind: str) -> str:
    """Return the source that a table has first for ``gender``, ``tone`` or ``attributes``; empty without one."""
    return next(iter(table.loc[table["question"].map(kind_of) == kind, "source"]), "")


def of_first(table: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Return the rows of a table on ``gender``, ``tone`` or ``attributes`` by the first source of it."""
    return table[(table["source"] == first_source(table, kind)) & (table["question"].map(kind_of) == kind)]
