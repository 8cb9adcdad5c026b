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

from hooks.prompt.spans import split_words
from probes.errors import UserError
from probes.fields.types import PERSON, shown
from probes.prompts.alignment import forms, occurrences
from probes.prompts.prompt import ID_LENGTH, Prompt, fill
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
    wanted = {name: forms(*both) for name, both in words.items()}
    groups: dict[Any, dict[str, list[ImageRow]]] = {}
    for row in rows:
        name = row.indicator or (reference if alone else "")
        if name not in words:
            listed = f"the indicator {reference} or none" if alone else f"an indicator of {', '.join(words)}"
            raise UserError(
                f"{row.at}: expected {listed}, got {shown(name)}: name it under `indicators`, or take the row out"
            )
        levels = tuple(sorted(row.levels.items()))
        key = (row.prompt, levels) if alone else _key(row, wanted[name], words[name], any_words)
        groups.setdefault(key, {}).setdefault(name, []).append(row)
    left_out: Counter[str] = Counter()
    prompts: list[Prompt] = []
    draws: list[Draw] = []
    known: dict[tuple[str, ...], ImageRow] = {}
    for members in groups.values():
        texts = {name: _one_prompt(members[name]) for name in words if name in members}
        if len(texts) < len(words):
            left_out[NO_MEMBER] += 1
            continue
        whole = _draws(len(prompts), {name: members[name] for name in words}, paired, alone, left_out)
        if not whole:
            continue
        first = members[reference][0]
        before = known.setdefault(tuple(texts.values()), first)
        if before is not first and not (repeated or alone):
            raise UserError(
                f"{first.at}: expected prompts that no other triplet has, got those of {before.at}: give both one"
                " triplet, and their images different seeds"
            )
        prompts.append(
            Prompt(texts, levels=first.levels) if alone else _prompt(texts, words, reference, first.triplet)
        )
        draws += whole
    if not draws:
        why = "; ".join(f"{number} {reason}" for reason, number in left_out.items())
        raise UserError(
            f"{rows[0].at}: expected a triplet with an image of every indicator ({', '.join(words)}), found none in"
            f" {len(rows)} rows ({why}): name the column `triplet`, or configure the indicators that are there"
        )
    times = Counter(
        seed for seed, _ in {(draw.seed, draw.triplet) for draw in draws}
    )  # triplets of each seed
    shared = paired and max(times.values()) > 1
    if paired and (own_noise or not shared):
        draws = _numbered(draws, len(times))
    return Triplets(prompts, draws, paired, shared, dict(left_out), len(rows))


def _are_paired(rows: Sequence[ImageRow]) -> bool:
    """Return whether rows name seeds."""
    without = [row for row in rows if row.seed is None]
    if without and len(without) < len(rows):
        raise UserError(f"{without[0].at}: expected a seed in every row or in none, got none here: write it")
    return not without


def _key(row: ImageRow, wanted: set, words: tuple[str, str], any_words: bool) -> Any:
    """Return what the rows of a triplet have in common: its name, or the words of the prompt around the indicator's."""
    texts = [word for word, _ in split_words(row.prompt)]
    places = occurrences(texts, wanted)
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


def _one_prompt(rows: Sequence[ImageRow]) -> str:
    for row in rows:
        if row.prompt != rows[0].prompt:
            raise UserError(
                f"{row.at}: expected one prompt of {row.indicator} in a triplet, got {shown(row.prompt)}, and"
                f" {shown(rows[0].prompt)} in {rows[0].at}: name another triplet"
            )
    return rows[0].prompt


def _draws(
    triplet: int,
    members: Mapping[str, Sequence[ImageRow]],
    paired: bool,
    alone: bool,
    left_out: Counter[str],
) -> list[Draw]:
    """The draws of a triplet that are whole, by seed."""
    if not paired:
        whole = list(zip(*members.values()))
        if beyond := sum(map(len, members.values())) - len(whole) * len(members):
            left_out[NO_PARTNER] += beyond
        return [Draw(triplet, index, None, rows) for index, rows in enumerate(whole)]
    by_seed: dict[int, dict[str, ImageRow]] = {}
    for name, row in ((name, row) for name, rows in members.items() for row in rows):
        before = by_seed.setdefault(row.seed or 0, {}).setdefault(name, row)
        if before is not row:
            of = "" if alone else f" of {name}"
            apart = "name what tells them apart in images.levels, " if alone else ""
            raise UserError(
                f"{row.at}: expected one image{of} {'of' if alone else 'for'} this prompt and seed {row.seed}, got"
                f" another in {before.at}: take one out, {apart}or say that there are no seeds (images: {{seed: null}})"
            )
    draws = [
        Draw(triplet, seed, seed, tuple(rows[name] for name in members))
        for seed, rows in sorted(by_seed.items())
        if len(rows) == len(members)
    ]
    if len(draws) < len(by_seed):
        left_out[NO_IMAGE] += len(by_seed) - len(draws)
    return draws


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
