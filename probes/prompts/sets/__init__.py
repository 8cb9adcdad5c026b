"""Sets of prompts that come with the package, a YAML file each: chosen by ``prompts: {from: professions}``.

A file has ``about``, and ``topics``: for each topic names of professions, each with what is said of it. The neutral
prompt is *a botanist presses a fern*, the others put a word before the profession, as Wu et al. 2025, section 3.1, do:
*female* for the indicator *woman*, *male* for *man*, and any other word as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from probes.prompts.neutral import Articles
from probes.text.articles import article
from probes.yaml_source import read_yaml

FOLDER = Path(__file__).parent
BEFORE = {"woman": "female", "man": "male"}  # a noun for a person, and the adjective of Wu et al. 2025


@cache
def names() -> tuple[str, ...]:
    """Return the names of the sets."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


@cache
def read(name: str) -> Mapping[str, Any]:
    """Return what a set's file says."""
    return read_yaml(FOLDER / f"{name}.yaml").data


def prompts(
    name: str, words: Mapping[str, tuple[str, str]], reference: str, *, articles: Articles = "fitting"
) -> list[dict[str, str]]:
    """Return the prompts of a set: an id, and a text by each indicator.

    Parameters
    ----------
    name : str
    words : mapping
        For each indicator the word for a person and its plural.
    reference : str
        The indicator that is put before no profession.
    articles : {"fitting", "kept"}
        ``kept`` leaves the article of the neutral prompt, as the paper does: *an female ecologist*.

    Examples
    --------
    >>> words = {"neutral": ("person", "people"), "feminine": ("woman", "women")}
    >>> first, *_ = prompts("professions", words, "neutral")
    >>> first["feminine"].replace("female ", "") == first["neutral"]
    True
    """
    before = {
        indicator: "" if indicator == reference else BEFORE.get(word, word)
        for indicator, (word, _) in words.items()
    }
    made = []
    for topic, entries in read(name)["topics"].items():
        for profession, said in entries.items():
            noun = in_sentence(profession)
            texts = {
                indicator: sentence(noun, said, word, articles=articles) for indicator, word in before.items()
            }
            made.append({"id": _identifier(topic, profession), **texts})
    return made


def sentence(noun: str, said: str, before: str = "", *, articles: Articles = "fitting") -> str:
    """Return the sentence of a profession, with a word before it.

    Examples
    --------
    >>> sentence("ecologist", "studies a pond"), sentence("ecologist", "studies a pond", "female")
    ('an ecologist studies a pond', 'a female ecologist studies a pond')
    >>> sentence("ecologist", "studies a pond", "female", articles="kept")
    'an female ecologist studies a pond'
    """
    phrase = f"{before} {noun}" if before else noun
    return f"{article(phrase if articles == 'fitting' else noun)} {phrase} {said}"


def in_sentence(profession: str) -> str:
    """Return the name of a profession as it stands within a sentence: initials alone keep their capitals.

    >>> in_sentence("AI Ethics Researcher"), in_sentence("Event DJ"), in_sentence("Import-Export Specialist")
    ('AI ethics researcher', 'event DJ', 'import-export specialist')
    """
    return " ".join(word if word.isupper() else word.lower() for word in profession.split())


def _identifier(topic: str, profession: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", f"{topic} {profession}".lower()).strip("-")
