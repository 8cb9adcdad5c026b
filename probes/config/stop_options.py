"""The section ``stop:`` of ``triplets.yaml``: a question, and a run that ends when it is answered."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from probes.config.checks import FEWEST
from probes.config.question_options import READERS, Key
from probes.config.types import Positive, Section, Seed, Word, fail, option

WITHIN_SHARES = 0.1  # difference of shares or of probabilities that would matter, where none is stated
_SHORT = re.compile(r"±\s*(\d*\.?\d+)|(gap|direction|equivalence)")


class StopOf(Section):
    """What of single images a run that stops is asked about, in place of its primary measure: one of three things."""

    object: Annotated[
        Word | None,
        option(
            "An object that is looked for in every image. The gap is the share of images of the first side of the first"
            " contrast in which it is detected, less that of the second.",
            null="something else is asked about",
            example="skirt",
        ),
    ] = None
    attribute: Annotated[
        Word | None,
        option(
            "An attribute of an audit by contexts (docs/how_to/gep.md). The gap is the mean probability that the"
            " audit's classifiers (CLS) give it in images of the first side, less that of the second.",
            null="something else is asked about",
            example="suit",
        ),
    ] = None
    question: Annotated[
        Key | None,
        option(
            "A question to the images, by its key (docs/how_to/questions.md): `gender`, an attribute of GEP, or one of"
            " `observe.questions.ask`. The gap is the share of images of the first side of which it is answered with"
            " `answer`, less that of the second.",
            null="something else is asked about",
            example="suit",
        ),
    ] = None
    answer: Annotated[
        Word | None,
        option(
            "The answer that is counted. All others, and answers that decide nothing, are not.",
            null="yes",
            example="female",
        ),
    ] = None
    reader: Annotated[
        Literal[*READERS] | None,  # type: ignore[valid-type]
        option("Whose answers are counted.", null="the one reader that is asked", example="blip2"),
    ] = None

    @model_validator(mode="after")
    def _one(self) -> StopOf:
        asked = [name for name in ("object", "attribute", "question") if getattr(self, name) is not None]
        if len(asked) != 1:
            got = " and ".join(asked) if asked else "none"
            raise fail(f"expected one of object, attribute and question, got {got}: name one")
        for name in ("answer", "reader"):
            if self.question is None and getattr(self, name) is not None:
                raise fail(f"expected a question, got {asked[0]}: name one, or take it out", at=(name,))
        return self


class Stop(Section):
    """A question that ends the run: it draws part after part, and looks after each whether the question is answered.

    Intervals of a run that stops hold wherever it stopped (`analysis.stats.confidence_sequences`). The question is
    recorded before the first image, and no other can be asked of the same run.
    """

    question: Annotated[
        Literal["gap", "direction", "equivalence", "interval"],
        option(
            "What is asked of the primary measure and the first contrast. `direction`: to which side the gap leans."
            " `equivalence`: whether it is smaller than `within`. `gap`: either of both. `interval`: its size to within"
            " ±`within`.",
            example="direction",
        ),
    ] = "gap"
    over: Annotated[
        Literal["prompts", "seeds"] | None,
        option(
            "What is drawn until the question is answered. `prompts`: prompt after prompt, each with all seeds; the"
            " answer is about other prompts. `seeds`: seed after seed, each under all prompts; the answer is about"
            " these prompts and other seeds.",
            null="the seeds of a run of one prompt, else prompts",
            example="seeds",
        ),
    ] = None
    of: Annotated[
        StopOf | None,
        option(
            "What of the images is asked about, in place of the primary measure.",
            null="`measure.primary`",
            example={"object": "skirt"},
        ),
    ] = None
    within: Annotated[
        Annotated[float, Field(gt=0)] | None,
        option(
            "The gap that would matter, or half the width of the interval that is wanted.",
            unit="of the measure, a share, or a probability",
            null="`measure.equivalence` of the primary measure, else the least gap that matters of it; of shares and"
            " probabilities 0.1",
            example=0.05,
        ),
    ] = None
    fewest: Annotated[
        Annotated[int, Field(ge=FEWEST)],
        option(
            "Prompts, or seeds, before the first look; all where there are fewer.", unit="prompts", example=24
        ),
    ] = 12
    every: Annotated[
        Positive | None,
        option(
            "Prompts, or seeds, from one look to the next.",
            unit="prompts",
            null="one part (`generate.part_triplets`)",
            example=24,
        ),
    ] = None
    order: Annotated[
        Literal["random", "listed"],
        option(
            "The order in which prompts are drawn. `random`: the prompts seen so far are a random sample of all, and of"
            " each level in its proportion; `listed` only where the list is in random order already. Seeds are"
            " drawn as they are listed.",
            example="listed",
        ),
    ] = "random"
    seed: Annotated[Seed, option("Seed of the random order.", unit="seed", example=1)] = 0
    reach: Annotated[
        Literal["run", "measure"],
        option(
            "How much a prompt can differ at most. `run`: by no more than the similarities of the prompts before it lie"
            " apart. `measure`: by the whole range of the measure, which no distribution can break and takes more"
            " prompts.",
            example="measure",
        ),
    ] = "run"


def of_text(text: str) -> dict[str, Any] | None:
    """Return the section that ``--until`` says in short; None where it says nothing of the kind.

    Examples
    --------
    >>> of_text("±0.05"), of_text("direction"), of_text("soon")
    ({'question': 'interval', 'within': 0.05}, {'question': 'direction'}, None)
    """
    found = _SHORT.fullmatch(text.strip().replace("+-", "±"))
    if found is None:
        return None
    return {"question": found[2]} if found[2] else {"question": "interval", "within": float(found[1])}


def in_order(prompts: list[Any], options: Stop) -> list[Any]:
    """Return prompts in the order in which they are drawn, which is a function of their set and the seed alone.

    Each level (`probes.config.checks.levels`) has its proportion of any beginning, as far as whole prompts go.

    Examples
    --------
    >>> prompts = ["a {person}", "a tall {person}", "a {person} in a hat", "a {person} on a bike"]
    >>> drawn = in_order(prompts, Stop(seed=3))
    >>> sorted(drawn) == sorted(prompts), in_order(drawn, Stop(seed=3)) == drawn
    (True, True)
    """
    if options.order == "listed":
        return prompts
    groups: dict[str, list[tuple[int, Any]]] = {}
    for prompt in prompts:
        stratum = prompt.get("levels") if isinstance(prompt, Mapping) else None
        number = _drawn_number(json.dumps(prompt, sort_keys=True), options.seed)
        groups.setdefault(json.dumps(stratum, sort_keys=True), []).append((number, prompt))
    placed = []
    for stratum, members in groups.items():
        offset = _drawn_number(stratum, options.seed) / 2**64
        for place, (number, prompt) in enumerate(sorted(members, key=lambda member: member[0])):
            placed.append(((place + offset) / len(members), number, prompt))
    return [prompt for *_, prompt in sorted(placed, key=lambda one: one[:2])]


def _drawn_number(text: str, seed: int) -> int:
    return int.from_bytes(sha256(f"stop\n{seed}\n{text}".encode()).digest()[:8], "big")
