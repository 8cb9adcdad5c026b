"""The section ``stop:`` of ``triplets.yaml``: a question, and a run that ends when it is answered."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import Annotated, Any, Literal

from pydantic import Field

from probes.config.checks import FEWEST
from probes.fields.types import Positive, Section, Seed, option
from probes.prompts.prompt import Prompt

_SHORT = re.compile(r"±\s*(\d*\.?\d+)|(gap|direction|equivalence)")


class Stop(Section):
    """A question that ends the run: growing prefixes of the plan are generated until a look at them answers it.

    Intervals of a run that stops hold wherever it stopped (`analysis.stats.confidence_sequences`). The question is
    recorded before the first image, and no other can be asked of the same run.
    """

    question: Literal["gap", "direction", "equivalence", "interval"] = "gap"
    """What is asked of the primary measure and the first contrast. `direction`: to which side the gap leans.
    `equivalence`: whether it is smaller than `within`. `gap`: either of both. `interval`: its size to within
    ±`within`."""
    within: Annotated[
        Annotated[float, Field(gt=0)] | None,
        option(
            unit="of the measure",
            null="`measure.equivalence` of the primary measure, else the least gap that matters of it",
            example=0.05,
        ),
    ] = None
    """The gap that would matter, or half the width of the interval that is wanted."""
    fewest: Annotated[Annotated[int, Field(ge=FEWEST)], option(unit="prompts", example=24)] = 12
    """Prompts before the first look; all where there are fewer."""
    every: Annotated[Positive, option(unit="prompts", example=24)] = 8
    """Prompts from one look to the next, at least one part."""
    order: Literal["random", "listed"] = "random"
    """The order in which prompts are drawn. `random`: the prompts seen so far are a random sample of all, and
    of each level in its proportion; `listed` only where the list is in random order already."""
    seed: Annotated[Seed, option(unit="seed", example=1)] = 0
    """Seed of the random order."""
    reach: Literal["run", "measure"] = "run"
    """How much a prompt can differ at most. `run`: by no more than the similarities of the prompts before it
    lie apart. `measure`: by the whole range of the measure, which no distribution can break and takes more
    prompts."""


def from_text(text: str) -> dict[str, Any] | None:
    """Return the section that ``--until`` says in short; None where it says nothing of the kind.

    >>> from_text("±0.05"), from_text("direction"), from_text("soon")
    ({'question': 'interval', 'within': 0.05}, {'question': 'direction'}, None)
    """
    found = _SHORT.fullmatch(text.strip().replace("+-", "±"))
    if found is None:
        return None
    return {"question": found[2]} if found[2] else {"question": "interval", "within": float(found[1])}


def in_order(prompts: list[Prompt], options: Stop) -> list[Prompt]:
    """Return prompts in the order in which they are drawn, which is a function of their set and the seed alone.

    Each level has its proportion of any beginning, as far as whole prompts go.
    """
    if options.order == "listed":
        return prompts
    groups: dict[str, list[tuple[int, Prompt]]] = {}
    for prompt in prompts:
        stratum = dict(prompt.levels) or None
        number = _drawn_number(json.dumps(prompt.written(), sort_keys=True), options.seed)
        groups.setdefault(json.dumps(stratum, sort_keys=True), []).append((number, prompt))
    placed = []
    for stratum, members in groups.items():
        offset = _drawn_number(stratum, options.seed) / 2**64
        for place, (number, prompt) in enumerate(sorted(members, key=lambda member: member[0])):
            placed.append(((place + offset) / len(members), number, prompt))
    return [prompt for *_, prompt in sorted(placed, key=lambda one: one[:2])]


def _drawn_number(text: str, seed: int) -> int:
    return int.from_bytes(sha256(f"stop\n{seed}\n{text}".encode()).digest()[:8], "big")
