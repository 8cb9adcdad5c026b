"""Sets of prompts that come with the package, a YAML file each: chosen by ``prompts: {from: professions}``.

A file has ``about`` and one of three things. ``topics``: for each topic names of professions, each with what is said of
it, or all in one ``sentence``. The neutral prompt is *a botanist presses a fern*, the others put a word before the
profession, as Wu et al. 2025, section 3.1, do: *female* for the indicator *woman*, *male* for *man*, and any other word
as it is. ``grids``: sentences with places (`probes.prompts.grids`) by setting, and the ``axes`` whose levels they take;
with ``bare``, a sentence without a profession (`probes.prompts.diagnostic`), the professions may be others. ``skills``,
or ``like`` a set that has them: templates without a person (`probes.prompts.paintskills`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from probes.errors import UserError
from probes.fields.yaml import read_yaml
from probes.prompts import diagnostic, paintskills
from probes.prompts.grammar.articles import article
from probes.prompts.grids import cells, named, slug
from probes.prompts.neutral import Articles
from probes.prompts.prompt import Prompt

FOLDER = Path(__file__).parent
PREPOSITIONS = ("in", "with", "wearing")
BEFORE = {"woman": "female", "man": "male"}  # a noun for a person, and the adjective of Wu et al. 2025
# options of a source of prompts, and the key that a set's file has which takes them
TAKEN_BY = {
    "written": "grids",
    "setting": "grids",
    "profession": "bare",
    "skill": "skills",
    "object": "skills",
}


@cache
def names() -> tuple[str, ...]:
    """Return the names of the sets."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


@cache
def read(name: str) -> Mapping[str, Any]:
    """Return what a set's file says."""
    data = read_yaml(FOLDER / f"{name}.yaml").data
    return {**read(data["like"]), **data} if "like" in data else data


@cache
def skill_sets() -> Mapping[str, Mapping[str, Any]]:
    """Return the sets whose prompts ask for skills, by name."""
    return {name: read(name) for name in names() if "skills" in read(name)}


def takers(option: str) -> list[str]:
    """Return the names of the sets that take an option of `TAKEN_BY`."""
    without = (
        "bare" if option == "written" else ""
    )  # such a set's sentences have no capital in the paper either
    return [name for name in names() if TAKEN_BY[option] in read(name) and without not in read(name)]


def prompts(
    name: str,
    words: Mapping[str, tuple[str, str]],
    reference: str,
    *,
    articles: Articles = "fitting",
    written: Literal["paper", "plain"] = "plain",
    setting: str | None = None,
    professions: Sequence[str] | None = None,
    skills: Sequence[str] | None = None,
    objects: Sequence[str] | None = None,
) -> list[Prompt]:
    """Return the prompts of a set: a text by each indicator, or a template, with id and levels.

    `words` has for each indicator the word for a person and its plural; `reference` is put before no profession.
    `articles` ``kept`` leaves that of the neutral prompt, as the paper does: *an female ecologist*. A set with grids is
    `written` with capital and full stop as in the paper, or without; of it one `setting` may be taken. `professions`
    stand in the place of a diagnostic set's; `skills` and `objects` are those that are taken of a set with skills.
    """
    content = read(name)
    if "skills" in content:
        return paintskills.prompts(content, skills, objects)
    settings = tuple(content.get("grids", ()))
    if setting is not None and setting not in settings:
        raise UserError(
            f"prompts.setting: expected one of {name}'s ({', '.join(settings)}), got {setting!r}: choose another"
        )
    if "bare" in content:
        return diagnostic.prompts(content, professions)
    if settings:
        axes = {axis: named(levels) for axis, levels in content["axes"].items()}
        chosen = settings if setting is None else (setting,)
        grids = [cells(content["grids"][place], axes, {"setting": place}) for place in chosen]
        return [
            cell if written == "paper" else replace(cell, template=plain(cell.template))
            for cell in chain.from_iterable(grids)
        ]
    before = {
        indicator: "" if indicator == reference else BEFORE.get(word, word)
        for indicator, (word, _) in words.items()
    }
    shape = content.get("sentence", "{noun} {said}")
    sentences = []
    for topic, entries in content["topics"].items():
        for profession, said in named(entries).items():
            noun = in_sentence(profession)
            texts = {
                indicator: sentence(noun, said, word, articles=articles, shape=shape)
                for indicator, word in before.items()
            }
            levels = {"setting": content["setting"], "context": noun} if "setting" in content else {}
            sentences.append(Prompt(texts, id=slug(f"{topic} {profession}"), levels=levels))
    return sentences


def sentence(
    noun: str, said: str, before: str = "", *, articles: Articles = "fitting", shape: str = "{noun} {said}"
) -> str:
    """Return the sentence of a profession, with a word before it.

    >>> sentence("ecologist", "studies a pond"), sentence("ecologist", "studies a pond", "female")
    ('an ecologist studies a pond', 'a female ecologist studies a pond')
    """
    phrase = f"{before} {noun}" if before else noun
    with_article = f"{article(phrase if articles == 'fitting' else noun)} {phrase}"
    return shape.format(noun=with_article, said=said)


def without_preposition(phrase: str) -> str:
    """Return an attribute's phrase without its preposition.

    >>> [without_preposition(phrase) for phrase in ("in a dress", "with gloves", "boots")]
    ['a dress', 'gloves', 'boots']
    """
    first, _, rest = phrase.partition(" ")
    return rest if first in PREPOSITIONS and rest else phrase


def plain(text: str) -> str:
    """Return a sentence without its capital and full stop."""
    return text[:1].lower() + text[1:].removesuffix(".")


def in_sentence(profession: str) -> str:
    """Return the name of a profession as it stands within a sentence: initials alone keep their capitals.

    >>> in_sentence("AI Ethics Researcher"), in_sentence("Event DJ"), in_sentence("Import-Export Specialist")
    ('AI ethics researcher', 'event DJ', 'import-export specialist')
    """
    return " ".join(word if word.isupper() else word.lower() for word in profession.split())
