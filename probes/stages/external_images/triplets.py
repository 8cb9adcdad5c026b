"""From rows of images to triplets: which images belong together, and which are left out since a member is missing.

A triplet is the prompts that differ in the indicator's word alone, or those that a column says belong together; a draw
is its images of one seed. Without seeds nothing pairs the images of a triplet: they are numbered in their order, and
the numbers stand for nothing. Where no indicator says which word a prompt has, images of one text and of the same
levels (profession, setting, template, model) are of one prompt, and nothing is compared between words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from hooks.prompt.spans import split_words
from probes.errors import UserError
from probes.fields.types import PERSON, shown
from probes.prompts.prompt import ID_LENGTH, Prompt, fill
from probes.prompts.sample import forms, occurrences
from probes.stages.external_images.table import ImageRow

Forms = Mapping[str, tuple[str, str]]  # of each indicator the word for a person and its plural

NO_MEMBER = "triplets without a prompt of every indicator"
NO_IMAGE = "seeds of a triplet without an image of every indicator"
NO_PARTNER = "images beyond the number that every indicator of the triplet has"


@dataclass(frozen=True)
class Draw:
    """The images of a triplet and seed, one of each indicator in their order.

    ``seed`` tells the draws of a triplet apart; ``stated`` is what the rows call it, None where they name none.
    """

    triplet: int
    seed: int
    stated: int | None
    rows: tuple[ImageRow, ...]


@dataclass(frozen=True)
class Triplets:
    """Triplets as the rows describe them."""

    prompts: list[Prompt]  # with a template where it makes the texts of all indicators
    draws: list[Draw]  # in the order of triplets and seeds
    paired: bool  # whether the rows name seeds
    shared: bool  # whether a seed stands in several triplets
    left_out: dict[str, int]  # of what is not whole, by the reason
    rows: int  # from how many rows

    @property
    def seeds(self) -> list[int]:
        """Seeds of all draws, ascending."""
        return sorted({draw.seed for draw in self.draws})


def triplets(
    rows: Sequence[ImageRow],
    words: Forms,
    reference: str,
    *,
    alone: bool = False,
    any_words: bool = False,
    own_noise: bool = False,
    repeated: bool = False,
) -> Triplets:
    """Return the triplets of some rows; `words` has the word for a person and its plural for each indicator.

    `alone`: prompts stand alone, and have the one indicator there is. `any_words`: prompts without their indicator's
    word are taken, too. `own_noise`: a seed means another noise in each triplet, so that seeds that are all different
    may be numbered. `repeated`: triplets may have the same texts.
    """
    paired = _are_paired(rows)
    keys: dict[Any, int] = {}  # numbers of triplets
    places = []
    for place, row in enumerate(rows):
        name = row.indicator or (reference if alone else "")
        if name not in words:
            listed = f"the indicator {reference} or none" if alone else f"an indicator of {', '.join(words)}"
            raise UserError(
                f"{row.at}: expected {listed}, got {shown(name)}: name it under `indicators`, or take the row out"
            )
        levels = tuple(sorted(row.levels.items()))
        key = (row.prompt, levels) if alone else _key(row, words[name], any_words)
        places.append((keys.setdefault(key, len(keys)), name, place))
    table = pd.DataFrame(places, columns=["key", "name", "place"])
    members = table.groupby(["key", "name"])["place"]
    table["seed"] = [row.seed for row in rows] if paired else members.cumcount()
    _require_one_prompt(rows, members.transform("first"))
    firsts = members.first().unstack().reindex(columns=list(words))  # rows of each triplet's indicators
    whole = firsts.dropna().astype(int)
    inside = table[table["key"].isin(whole.index)]
    _require_one_image(rows, inside, alone)
    every = inside.pivot(index=["key", "seed"], columns="name", values="place").reindex(columns=list(words))
    complete = every.dropna().astype(int)
    left = len(every) - len(complete) if paired else int(every.notna().to_numpy().sum()) - complete.size
    reasons = {NO_MEMBER: len(firsts) - len(whole), NO_IMAGE if paired else NO_PARTNER: left}
    left_out = {why: number for why, number in reasons.items() if number}
    if complete.empty:
        why = "; ".join(f"{number} {reason}" for reason, number in left_out.items())
        raise UserError(
            f"{rows[0].at}: expected a triplet with an image of every indicator ({', '.join(words)}), found none in"
            f" {len(rows)} rows ({why}): name the column `triplet`, or configure the indicators that are there"
        )
    prompts: list[Prompt] = []
    number: dict[int, int] = {}  # of the triplets that are left
    known: dict[tuple[str, ...], ImageRow] = {}
    for key in complete.index.unique("key"):
        texts = {name: rows[place].prompt for name, place in whole.loc[key].items()}
        first = rows[whole.loc[key, reference]]
        before = known.setdefault(tuple(texts.values()), first)
        if before is not first and not (repeated or alone):
            raise UserError(
                f"{first.at}: expected prompts that no other triplet has, got those of {before.at}: give both one"
                " triplet, and their images different seeds"
            )
        number[key] = len(prompts)
        prompts.append(
            Prompt(texts, levels=first.levels) if alone else _prompt(texts, words, reference, first.triplet)
        )
    draws = [
        Draw(number[key], int(seed), int(seed) if paired else None, tuple(rows[place] for place in own))
        for (key, seed), *own in complete.itertuples(name=None)
    ]
    times = complete.groupby("seed").size()  # triplets of each seed
    shared = paired and times.max() > 1
    if paired and (own_noise or not shared):
        draws = _numbered(draws, len(times))
    return Triplets(prompts, draws, paired, bool(shared), left_out, len(rows))


def _are_paired(rows: Sequence[ImageRow]) -> bool:
    """Return whether rows name seeds."""
    without = [row for row in rows if row.seed is None]
    if without and len(without) < len(rows):
        raise UserError(f"{without[0].at}: expected a seed in every row or in none, got none here: write it")
    return not without


def _key(row: ImageRow, words: tuple[str, str], any_words: bool) -> Any:
    """Return what the rows of a triplet have in common: its name, or the words of the prompt around the indicator's."""
    texts = [word for word, _ in split_words(row.prompt)]
    places = occurrences(texts, forms(*words))
    if not places and (row.triplet is None or not any_words):
        spoken = ", ".join(dict.fromkeys(words))
        remedy = (
            "name a column `triplet`, since nothing else says what it belongs to"
            if row.triplet is None
            else "mend it, or take any prompt (images: {any_words: true})"
        )
        raise UserError(
            f"{row.at}: expected the word of {row.indicator} ({spoken}) in the prompt, got {shown(row.prompt)}:"
            f" {remedy}"
        )
    if row.triplet is not None:
        return row.triplet
    rest: list[str | None] = []
    for place, word in enumerate(texts):
        if place not in places:
            article = place + 1 in places and word.lower() == "an"
            rest.append("a" if article else word.lower())
        elif not rest or rest[-1] is not None:
            rest.append(None)
    return tuple(rest)


def _require_one_prompt(rows: Sequence[ImageRow], first: pd.Series) -> None:
    """Refuse two prompts of one indicator in a triplet, whose `first` row each row has."""
    for row, before in zip(rows, (rows[place] for place in first)):
        if row.prompt != before.prompt:
            raise UserError(
                f"{row.at}: expected one prompt of {row.indicator} in a triplet, got {shown(row.prompt)}, and"
                f" {shown(before.prompt)} in {before.at}: name another triplet"
            )


def _require_one_image(rows: Sequence[ImageRow], table: pd.DataFrame, alone: bool) -> None:
    """Refuse two images of one prompt and seed."""
    draw = ["key", "name", "seed"]
    if (again := table.duplicated(draw)).any():
        place = int(again.idxmax())
        row, before = rows[place], rows[table.groupby(draw)["place"].transform("first")[place]]
        of, more = ("of", "name what tells them apart in images.levels, ") if alone else ("for", "")
        image = "image" if alone else f"image of {row.indicator}"
        raise UserError(
            f"{row.at}: expected one {image} {of} this prompt and seed {row.seed}, got another in {before.at}: take"
            f" one out, {more}or say that there are no seeds (images: {{seed: null}})"
        )


def _prompt(texts: dict[str, str], words: Forms, reference: str, name: str | None) -> Prompt:
    """A template where it makes every prompt, else the prompts as they are."""
    text, word = texts[reference], words[reference][0]
    if "{" not in text and "}" not in text and word in text:
        template = text.replace(word, PERSON, 1)
        if all(fill(template, words[member][0])[0] == prompt for member, prompt in texts.items()):
            return Prompt(template=template)
    return Prompt(texts, id=name if name and len(name) <= ID_LENGTH and name not in words else "")


def _numbered(draws: Sequence[Draw], different: int) -> list[Draw]:
    """Number the draws of each triplet in the place of seeds that say nothing across triplets and are too many."""
    counts: Counter[int] = Counter()
    numbered = []
    for draw in draws:
        numbered.append(replace(draw, seed=counts[draw.triplet]))
        counts[draw.triplet] += 1
    return list(draws) if different == max(counts.values()) else numbered
