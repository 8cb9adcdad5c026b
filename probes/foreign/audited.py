"""Images of an audit, whose prompts are known beforehand: their text says which one it is, and of which word.

``images: {from: pictures}`` beside ``prompts: {from: gep}``, ``{from: dalleval}`` or a grid: a row names its prompt and
nothing else, and has the attribute and the context, or the profession, that the audit's prompt has.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from probes.config_checks import caption, levels, normal, template
from probes.config_values import shown
from probes.errors import UserError
from probes.foreign.table import Row
from probes.foreign.triplets import Forms, Triplets, triplets
from probes.prompts.alignment import fill
from probes.prompts.diagnostic import AXIS as PROFESSION

Prompt = str | Mapping[str, Any]


def is_audit(prompts: Sequence[Prompt]) -> bool:
    """Tell whether every prompt stands in a context or names a profession or none, as those of audits do."""
    return bool(prompts) and all({"context", PROFESSION} & {*levels(prompt)} for prompt in prompts)


def placed(rows: Sequence[Row], prompts: Sequence[Prompt], words: Mapping[str, str]) -> list[Row]:
    """Return rows in the order of an audit's prompts, each with its indicator and, as its triplet, its prompt's number.

    Parameters
    ----------
    rows : sequence of Row
    prompts : sequence
        As ``prompts`` of a configuration.
    words : mapping of str to str
        The word of each indicator.

    Raises
    ------
    UserError
        A prompt is none of the audit, or not one of the indicator that its row names.
    """
    known = {
        _plain(fill(template(prompt), word)[0] if template(prompt) else caption(prompt, name)): (number, name)
        for number, prompt in enumerate(prompts)
        for name, word in words.items()
    }
    found = []
    for row in rows:
        there = known.get(_plain(row.prompt))
        if there is None:
            near = difflib.get_close_matches(_plain(row.prompt), known, 1, 0.0)[0]
            raise UserError(
                f"{row.at}: expected a prompt of the audit, such as {near!r}, got {shown(row.prompt)}: correct it, or"
                " say under `prompts` and `indicators` what was asked"
            )
        number, name = there
        if row.indicator not in ("", name):
            raise UserError(
                f"{row.at}: expected {name} for {shown(row.prompt)}, got {shown(row.indicator)}: correct one of both"
            )
        found.append((number, replace(row, indicator=name, triplet=str(number))))
    return [row for _, row in sorted(found, key=lambda pair: pair[0])]


def audited(
    rows: Sequence[Row], prompts: Sequence[Prompt], words: Forms, reference: str, *, own_noise: bool
) -> Triplets:
    """Return the triplets of an audit's images, numbered as its prompts are; those without images stay without.

    Parameters
    ----------
    rows, prompts
        As for `placed`.
    words, reference, own_noise
        As for `probes.foreign.triplets.triplets`.
    """
    inside = placed(rows, prompts, {name: word for name, (word, _) in words.items()})
    said = triplets(inside, words, reference, any_words=True, own_noise=own_noise)
    draws = [replace(draw, triplet=int(draw.rows[0].triplet or 0)) for draw in said.draws]
    return replace(said, prompts=list(prompts), draws=draws)


def _plain(text: str) -> str:
    return normal(text).rstrip(" .")
