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
from pathlib import Path
from typing import Any

from probes.errors import UserError
from probes.fields.types import fail, shown
from probes.fields.yaml import read_yaml
from probes.prompts import paintskills
from probes.prompts.diagnostic import ALL, AXIS, NONE
from probes.prompts.forms import PromptSource
from probes.prompts.grammar.english import article
from probes.prompts.grids import grid_prompts, phrases_by_level, slug
from probes.prompts.people import BEFORE
from probes.prompts.prompt import IndicatorForms, Prompt
from probes.toyworld import MODELS

FOLDER = Path(__file__).parent
PREPOSITIONS = ("in", "with", "wearing")
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
    """Return the names of the bundled sets of prompts, sorted."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


@cache
def read(name: str) -> Mapping[str, Any]:
    """Return the content of a bundled set's YAML file, laid over that of the set under its key ``like``, if any."""
    data = read_yaml(FOLDER / f"{name}.yaml").data
    return {**read(data["like"]), **data} if "like" in data else data


def require_supported_options(source: PromptSource, set_data: Mapping[str, Any]) -> None:
    """Raise `UserError` for options that a set does not support; `set_data` is its file's content ({} for captions)."""
    for option in TAKEN_BY:
        if getattr(source, option) is not None and not _supports_option(set_data, option):
            takers = ", ".join(name for name in names() if _supports_option(read(name), option))
            raise UserError(
                f"prompts.{option}: expected a set that takes it ({takers}), got {source.from_!r}: take it"
                " out, or name one of those"
            )
    if "skills" in set_data and source.split not in (None, *paintskills.SPLITS):
        raise UserError(
            f"prompts.split: expected {' or '.join(paintskills.SPLITS)}, got {source.split!r}: choose one"
        )


def _supports_option(set_data: Mapping[str, Any], option: str) -> bool:
    """Return whether the set with this content supports an option of `PromptSource`."""
    return TAKEN_BY[option] in set_data and not (option == "written" and "bare" in set_data)


def prompts(source: PromptSource, words: IndicatorForms, reference: str, model: str) -> list[Prompt]:
    """Return the prompts of the bundled set that `source` names, as templates or with a text for each indicator.

    The word of the indicator `reference` is put before no profession. Sentences are written as the `model` reads them
    where the source does not say.
    """
    content = read(source.from_)
    require_supported_options(source, content)
    if "skills" in content:
        return paintskills.prompts(content, source.skill, source.object)
    settings = content.get("grids", {})
    if source.setting is not None and source.setting not in settings:
        raise UserError(
            f"prompts.setting: expected one of {source.from_}'s ({', '.join(settings)}), got {source.setting!r}:"
            " choose another"
        )
    result: list[Prompt] = []
    if settings:
        axes = {axis: phrases_by_level(levels) for axis, levels in content["axes"].items()}
        if source.profession is not None:
            axes[AXIS] = phrases_by_level(_check_professions(source.profession))
        for setting, text in settings.items():
            if source.setting in (None, setting):
                fixed = {"setting": setting}
                if "bare" in content:
                    identifier, levels = slug(f"{setting} {NONE}"), {**fixed, AXIS: NONE}
                    result.append(Prompt(template=content["bare"], id=identifier, levels=levels))
                result += grid_prompts(text, axes, fixed)
        if (source.written or ("plain" if model in MODELS else "paper")) == "paper":
            return result
        plain = ((item, item.template[:1].lower() + item.template[1:].removesuffix(".")) for item in result)
        return [replace(item, template=text) for item, text in plain]
    for topic, entries in content["topics"].items():
        for profession, activity in phrases_by_level(entries).items():
            # initials alone keep their capitals within a sentence
            noun = " ".join(word if word.isupper() else word.lower() for word in profession.split())
            texts = {}
            for indicator, (word, _) in words.items():
                phrase = noun if indicator == reference else f"{BEFORE.get(word, word)} {noun}"
                before = article(phrase if source.articles == "fitting" else noun)
                shape = content.get("sentence", "{noun} {said}")
                texts[indicator] = shape.format(noun=f"{before} {phrase}", said=activity)
            levels = {"setting": content["setting"], "context": noun} if "setting" in content else {}
            result.append(Prompt(texts, id=slug(f"{topic} {profession}"), levels=levels))
    return result


def _check_professions(names: Sequence[str]) -> Sequence[str]:
    """Return `names` of professions; raise an error for braces, articles, odd spaces, reserved or repeated names."""
    seen: dict[str, int] = {}
    for index, name in enumerate(names):
        first, *rest = name.split() or [""]
        wrong = ""
        if not any(char.isalnum() for char in name) or any(char in name for char in "{}"):
            wrong, remedy = "the name of a profession without braces", "write it as `baker`"
        elif first.lower() in ("a", "an", "the") and rest:
            wrong, remedy = "a profession without its article", f"write {' '.join(rest)}"
        elif name in (NONE, ALL) or name != " ".join(name.split()):
            wrong, remedy = f"single spaces and a name other than {NONE} and {ALL}", "write it so"
        at = ("profession", index)
        if wrong:
            raise fail(f"expected {wrong}, got {shown(name)}: {remedy}", at=at)
        if (key := slug(name)) in seen:
            raise fail(f"the same as profession[{seen[key]}], got {shown(name)}: keep one", at=at)
        seen[key] = index
    return names


def without_preposition(phrase: str) -> str:
    """Return an attribute's phrase without *in*, *with* or *wearing* at its beginning.

    >>> [without_preposition(phrase) for phrase in ("in a dress", "with gloves", "boots")]
    ['a dress', 'gloves', 'boots']
    """
    first, _, rest = phrase.partition(" ")
    return rest if first in PREPOSITIONS and rest else phrase
