"""The first screen of the report: three triplets with their numbers, and what the run did not test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd
from PIL import Image

from analysis.report import gallery
from analysis.report.format import counted, listed
from analysis.report.verdict import ENOUGH
from analysis.study import Member
from probes.config.schema import Config

TRIPLETS = 3
LARGEST = 192  # pixels of a picture's longer side


@dataclass(frozen=True)
class ShownTriplet:
    """A triplet of the first screen: its prompt and seed, a cell for each of three indicators, and its gap.

    ``place``: ``lowest``, ``middle``, ``highest``, ``only``, or empty without a gap; ``cells``: the second side, the
    reference and the first, so that right is nearer to the first; ``gap``: a row of ``tables/gap_prompts`` with
    ``first`` and ``second``.
    """

    triplet: int
    seed: int
    prompt: str
    place: str
    gap: Mapping[str, Any]
    cells: Sequence[Mapping[str, Any]] = field(default_factory=list)


def ends_and_middle(count: int) -> dict[str, int]:
    """Return places of the lowest, the middle and the highest of `count` in order; none twice.

    >>> ends_and_middle(9)
    {'lowest': 0, 'middle': 4, 'highest': 8}
    >>> ends_and_middle(2), ends_and_middle(1)
    ({'lowest': 0, 'highest': 1}, {'only': 0})
    """
    if count < 2:
        return {"only": 0} if count else {}
    return {"lowest": 0, **({"middle": (count - 1) // 2} if count > 2 else {}), "highest": count - 1}


def choose_triplets(
    samples: pd.DataFrame, gaps: pd.DataFrame, contrast: tuple[str, str], reference: str
) -> list[ShownTriplet]:
    """Choose the triplets with the lowest, the middle and the highest gap of a contrast; ties go in order.

    In the order of their gaps (of `analysis.report.gallery.primary_gaps`), of a prompt its first seed, cells without
    pictures; without gaps the first of the prompts.
    """
    first, second = contrast
    wide = samples.pivot_table(
        index=["triplet", "seed"], columns="indicator", values="sample_id", aggfunc="first"
    )
    if not {first, second, reference} <= set(wide):
        return []
    wide = wide[[second, reference, first]].dropna()
    own = gaps[(gaps["first"] == first) & (gaps["second"] == second) & gaps["gap"].notna()]
    own = own[own["triplet"].isin(wide.index.get_level_values("triplet"))]
    own = own.sort_values("gap", kind="stable").reset_index(drop=True)
    prompts = samples.set_index("sample_id")["prompt"]
    chosen = [(end, own.loc[place].to_dict()) for end, place in ends_and_middle(len(own)).items()]
    if not chosen:
        chosen = [("", {"triplet": triplet}) for triplet in wide.index.unique("triplet")[:TRIPLETS]]
    found = []
    for end, row in chosen:
        draws = wide.loc[[row["triplet"]]]
        if "seed" in row:
            draws = draws[draws.index.get_level_values("seed") == row["seed"]]
        if draws.empty:
            continue
        (triplet, seed), ids = draws.index[0], draws.iloc[0]
        cells = [
            {"sample_id": ids[name], "indicator": name, "prompt": prompts[ids[name]]}
            for name in (second, reference, first)
        ]
        found.append(ShownTriplet(int(triplet), int(seed), prompts[ids[reference]], end, row, cells))
    return found


def with_pictures(shown: Sequence[ShownTriplet], pictures: Mapping[str, Image.Image]) -> list[ShownTriplet]:
    """Return triplets with their pictures as ``data:`` addresses."""
    return [
        replace(
            one,
            cells=[
                {**cell, "source": gallery.encode(pictures[cell["sample_id"]], LARGEST)} for cell in one.cells
            ],
        )
        for one in shown
    ]


def not_tested(
    config: Config,
    people: Sequence[Member],
    *,
    n_prompts: int,
    n_seeds: int,
    counts: Sequence[tuple[int, int, int]] = (),
    absent: Sequence[str] = (),
    closed: bool = False,
    detector: bool | None = None,
) -> list[str]:
    """Return what a run says nothing about, a short line each.

    `counts` are words of both sides and reference words of each contrast; `absent` says which measures were not run,
    and why; `detector` whether anybody checked the detector of objects, None where none was used.
    """
    lines = []
    if counts and not any(person.control for person in people):
        lines.append("Synonyms: without control words a gap cannot be told from two words being two words.")
    elif counts and min(min(own) for own in counts) < ENOUGH:
        lines.append(f"More words: a claim without a hedge takes {ENOUGH} a side and {ENOUGH} references.")
    if closed:
        lines.append("The inside of the model: another program made the images.")
    lines += [f"{line}." for line in absent]
    if n_prompts == 1:
        lines.append("Other prompts: this run has one.")
    elif n_seeds == 1:
        lines.append("Other noise: each prompt has one seed.")
    if detector is False:
        lines.append("The object detector: nobody checked it on these images.")
    if config.trace is None and not closed:
        lines.append("Where a difference arises: no activations were patched (no trace).")
    others = ["prompts" if n_prompts > 1 else "", "words", "samplers", "weights"]
    lines.append(
        f"Other {listed([name for name in others if name])} than those of this run; whatever changes in few of "
        f"{counted(n_prompts, 'prompt')}."
    )
    if config.model.startswith("toyworld"):
        lines.append(f"Photographs: {config.model} is a benchmark model whose frequencies were planted.")
    lines.append("People: words stand in prompts, and no image is assigned a gender.")
    return lines
