"""Images of prompts that stand alone: no indicator says which word they have, and nothing is compared between words.

Images of one text and of the same levels (profession, setting, template, model) are of one prompt. Seeds tell the
images of a prompt apart; without them they are numbered in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from probes.errors import UserError
from probes.fields.types import shown
from probes.prompts.prompt import Prompt
from probes.stages.external_images.table import ImageRow
from probes.stages.external_images.triplets import Draw, Triplets, are_paired, numbered, times_of_seeds


def singles(rows: Sequence[ImageRow], indicator: str, *, own_noise: bool = False) -> Triplets:
    """Return the prompts of some rows with their images, each prompt of one indicator."""
    paired = are_paired(rows)
    groups: dict[Any, list[ImageRow]] = {}
    for row in rows:
        if row.indicator not in ("", indicator):
            raise UserError(
                f"{row.at}: expected the indicator {indicator} or none, got {shown(row.indicator)}: name it under"
                " `indicators`, or take the row out"
            )
        groups.setdefault((row.prompt, tuple(sorted(row.levels.items()))), []).append(row)
    prompts: list[Prompt] = []
    draws: list[Draw] = []
    for (text, _), own in groups.items():
        number = len(prompts)
        prompts.append(Prompt({indicator: text}, levels=own[0].levels))
        draws += _seeded(number, own) if paired else _in_order(number, own)
    times = times_of_seeds(draws)
    shared = paired and max(times.values()) > 1
    if paired and (own_noise or not shared):
        draws = numbered(draws, len(times))
    return Triplets(prompts, draws, paired, shared, {}, len(rows))


def _in_order(triplet: int, rows: Sequence[ImageRow]) -> list[Draw]:
    return [Draw(triplet, index, None, (row,)) for index, row in enumerate(rows)]


def _seeded(triplet: int, rows: Sequence[ImageRow]) -> list[Draw]:
    by_seed: dict[int, ImageRow] = {}
    for row in rows:
        before = by_seed.setdefault(row.seed or 0, row)
        if before is not row:
            raise UserError(
                f"{row.at}: expected one image of this prompt and seed {row.seed}, got another in {before.at}: take one"
                " out, name what tells them apart in images.levels, or say that there are no seeds (images: {seed:"
                " null})"
            )
    return [Draw(triplet, seed, seed, (row,)) for seed, row in sorted(by_seed.items())]
