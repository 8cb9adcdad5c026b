"""From rows of images to triplets: which images belong together, and which are left out since a member is missing.

A triplet is the prompts that differ in the indicator's word alone, or those that a column says belong together; a draw
is its images of one seed. Without seeds nothing pairs the images of a triplet: they are numbered in their order, and
the numbers stand for nothing.
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
from probes.prompts.prompt import Prompt, fill
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
    any_words: bool = False,
    own_noise: bool = False,
    repeated: bool = False,
) -> Triplets:
    """Return the triplets of some rows; `words` has the word for a person and its plural for each indicator.

    `any_words`: prompts without their indicator's word are taken, too. `own_noise`: a seed means another noise in each
    triplet, so that seeds that are all different may be numbered. `repeated`: triplets may have the same texts.
    """
    paired = are_paired(rows)
    wanted = {name: forms(*both) for name, both in words.items()}
    groups: dict[Any, dict[str, list[ImageRow]]] = {}
    for row in rows:
        if row.indicator not in words:
            raise UserError(
                f"{row.at}: expected an indicator of {', '.join(words)}, got {shown(row.indicator)}: name it under"
                " `indicators`, or take the row out"
            )
        key = _key(row, wanted, words, any_words)
        groups.setdefault(key, {}).setdefault(row.indicator, []).append(row)
    left_out: Counter[str] = Counter()
    prompts: list[Prompt] = []
    draws: list[Draw] = []
    known: dict[tuple[str, ...], ImageRow] = {}
    for members in groups.values():
        texts = {name: _one_prompt(members[name]) for name in words if name in members}
        if len(texts) < len(words):
            left_out[NO_MEMBER] += 1
            continue
        whole = _draws(len(prompts), members, list(words), paired, left_out)
        if not whole:
            continue
        if not repeated:
            _require_new(known, tuple(texts.values()), members[reference][0])
        prompts.append(_prompt(texts, words, reference, members[reference][0].triplet))
        draws += whole
    if not draws:
        why = "; ".join(f"{number} {reason}" for reason, number in left_out.items())
        raise UserError(
            f"{rows[0].at}: expected a triplet with an image of every indicator ({', '.join(words)}), found none in"
            f" {len(rows)} rows ({why}): name the column `triplet`, or configure the indicators that are there"
        )
    seeds = times_of_seeds(draws)
    shared = paired and max(seeds.values()) > 1
    if paired and (own_noise or not shared):
        draws = numbered(draws, len(seeds))
    return Triplets(prompts, draws, paired, shared, dict(left_out), len(rows))


def times_of_seeds(draws: Sequence[Draw]) -> Counter[int]:
    """Return in how many triplets each seed stands."""
    return Counter(seed for seed, _ in {(draw.seed, draw.triplet) for draw in draws})


def are_paired(rows: Sequence[ImageRow]) -> bool:
    """Return whether rows name seeds."""
    without = [row for row in rows if row.seed is None]
    if without and len(without) < len(rows):
        raise UserError(f"{without[0].at}: expected a seed in every row or in none, got none here: write it")
    return not without


def _key(row: ImageRow, wanted: Mapping[str, set], words: Forms, any_words: bool) -> Any:
    """Return what the rows of a triplet have in common: its name, or the words of the prompt around the indicator's."""
    texts = [word for word, _ in split_words(row.prompt)]
    places = occurrences(texts, wanted[row.indicator])
    if not places and (row.triplet is None or not any_words):
        spoken = ", ".join(dict.fromkeys(words[row.indicator]))
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
    names: Sequence[str],
    paired: bool,
    left_out: Counter[str],
) -> list[Draw]:
    """The draws of a triplet that are whole, by seed."""
    if not paired:
        count = min(len(members[name]) for name in names)
        left_out[NO_PARTNER] += sum(len(members[name]) - count for name in names)
        left_out += Counter()  # takes zeros out
        return [
            Draw(triplet, index, None, tuple(members[name][index] for name in names))
            for index in range(count)
        ]
    by_seed: dict[int, dict[str, ImageRow]] = {}
    for name in names:
        for row in members[name]:
            before = by_seed.setdefault(row.seed or 0, {}).setdefault(name, row)
            if before is not row:
                raise UserError(
                    f"{row.at}: expected one image of {name} for this prompt and seed {row.seed}, got another in"
                    f" {before.at}: take one out, or say that there are no seeds (images: {{seed: null}})"
                )
    whole = {seed: rows for seed, rows in sorted(by_seed.items()) if len(rows) == len(names)}
    if len(whole) < len(by_seed):
        left_out[NO_IMAGE] += len(by_seed) - len(whole)
    return [Draw(triplet, seed, seed, tuple(rows[name] for name in names)) for seed, rows in whole.items()]


def _require_new(known: dict[tuple[str, ...], ImageRow], texts: tuple[str, ...], row: ImageRow) -> None:
    before = known.setdefault(texts, row)
    if before is not row:
        raise UserError(
            f"{row.at}: expected prompts that no other triplet has, got those of {before.at}: give both one triplet,"
            " and their images different seeds"
        )


def _prompt(texts: dict[str, str], words: Forms, reference: str, name: str | None) -> Prompt:
    """A template where it makes every prompt, else the prompts as they are."""
    text, word = texts[reference], words[reference][0]
    if "{" not in text and "}" not in text and word in text:
        before, after = text.split(word, 1)
        template = f"{before}{PERSON}{after}"
        if all(fill(template, words[member][0])[0] == prompt for member, prompt in texts.items()):
            return Prompt(template=template)
    return Prompt(dict(texts), id=name if name and len(name) <= 100 and name not in words else "")


def numbered(draws: Sequence[Draw], different: int) -> list[Draw]:
    """Number the draws of each triplet in the place of seeds that say nothing across triplets and are too many."""
    most = max(Counter(draw.triplet for draw in draws).values())
    if different == most:
        return list(draws)
    counts: Counter[int] = Counter()
    numbered = []
    for draw in draws:
        numbered.append(replace(draw, seed=counts[draw.triplet]))
        counts[draw.triplet] += 1
    return numbered
