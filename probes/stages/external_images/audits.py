"""Images of an audit, whose prompts are known beforehand: their text says which one it is, and of which word.

``images: {from: pictures}`` beside ``prompts: {from: gep}``, ``{from: dalleval}``, ``{from: paintskills}`` or a grid: a
row names its prompt and nothing else, and has the attribute and the context, the profession, or what is asked for, that
the audit's prompt has. Some prompts that ask for skills have one text: a row of these names the prompt's id.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from probes.errors import UserError
from probes.fields.types import shown
from probes.prompts.prompt import SKILL, Prompt, normal
from probes.stages.external_images.table import ImageRow
from probes.stages.external_images.triplets import Forms, Triplets, triplets


def is_audit(prompts: Sequence[Prompt]) -> bool:
    """Tell whether every prompt has levels: stands in a context, names a profession, asks for a skill ..."""
    return bool(prompts) and all(prompt.levels for prompt in prompts)


def has_ids(prompts: Sequence[Prompt]) -> bool:
    """Tell whether rows may name a prompt by its id, as those that ask for skills: some of them have one text."""
    return bool(prompts) and all(SKILL in prompt.levels for prompt in prompts)


def placed(rows: Sequence[ImageRow], prompts: Sequence[Prompt], words: Mapping[str, str]) -> list[ImageRow]:
    """Return rows in the order of an audit's prompts, each with its indicator and its prompt's number as triplet."""
    known = [
        (number, name, prompt.text(name, word))
        for number, prompt in enumerate(prompts)
        for name, word in words.items()
    ]
    names = [prompt.name(number) for number, prompt in enumerate(prompts)]
    by_id = {names[one[0]]: [one] for one in known}  # prompts with ids have one indicator
    by_text: dict[str, list[tuple[int, str, str]]] = {}
    for one in known:
        by_text.setdefault(_plain(one[2]), []).append(one)
    found = []
    for row in rows:
        told, table = (row.prompt_id, by_id) if row.prompt_id else (_plain(row.prompt), by_text)
        matches = table.get(told)
        if matches is None:
            near = difflib.get_close_matches(told, table, 1, 0.0)[0]
            raise UserError(
                f"{row.at}: expected the id of a prompt, such as {near}, got {shown(told)}: correct it, or say under"
                " `prompts` what was asked"
                if row.prompt_id
                else f"{row.at}: expected a prompt of the audit, such as {near!r}, got {shown(row.prompt)}: correct it,"
                " or say under `prompts` and `indicators` what was asked"
            )
        if len(matches) > 1:
            listed = " and ".join(names[number] for number, *_ in matches)
            raise UserError(
                f"{row.at}: expected a prompt that stands once, got {shown(row.prompt)}, which is that of {listed}:"
                " name which one in a column `prompt_id`"
            )
        ((number, name, text),) = matches
        if row.prompt and _plain(row.prompt) != _plain(text):
            raise UserError(
                f"{row.at}: expected {shown(text)}, the prompt {told}, got {shown(row.prompt)}: correct one of both"
            )
        if row.indicator not in ("", name):
            raise UserError(
                f"{row.at}: expected {name} for {shown(text)}, got {shown(row.indicator)}: correct one of both"
            )
        found.append((number, replace(row, indicator=name, triplet=str(number), prompt=row.prompt or text)))
    return [row for _, row in sorted(found, key=lambda pair: pair[0])]


def audited(
    rows: Sequence[ImageRow], prompts: Sequence[Prompt], words: Forms, reference: str, *, own_noise: bool
) -> Triplets:
    """Return the triplets of an audit's images, numbered as its prompts are; those without images stay without."""
    inside = placed(rows, prompts, {name: word for name, (word, _) in words.items()})
    read = triplets(inside, words, reference, any_words=True, own_noise=own_noise, repeated=True)
    draws = [replace(draw, triplet=int(draw.rows[0].triplet or 0)) for draw in read.draws]
    return replace(read, prompts=list(prompts), draws=draws)


def _plain(text: str) -> str:
    return normal(text).rstrip(" .")
