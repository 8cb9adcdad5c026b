"""How often intervals of shares that labels of some pictures set right hold the share, where the machine errs by group.

Ten professions, two models; the machine's errors differ between professions and between the models. Of each cell a
random part is labelled. In the last worlds labels are not given at random: what follows from it is shown, and how often
the audit says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.methods.audit.design import Design
from analysis.methods.audit.reader import corrected_table
from analysis.stats.multiplicity import adjust_p_values
from lab.templates import render

MODELS = ("A", "B")
SHARES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 0.98)
PROFESSIONS = tuple(f"profession {number}" for number in range(len(SHARES)))
FAIR = ((0.7, 0.98), (0.75, 0.95))  # between which rights of pictures with the answer, and without, spread
GOOD = ((0.95, 0.99), (0.95, 0.99))
BLIND = ((0.5, 0.5), (0.5, 0.5))
DECIDED = 0.95  # of pictures, by the machine


@dataclass(frozen=True)
class LabelledReaderWorld:
    """What pictures, readings and labels are drawn from.

    `pictures` of a cell, the share of them `labelled`, between which rates the machine reads rightly with and without
    the answer (`rights`), the share `undecided` by people; `truth` and `reading`: how many times as often pictures with
    the answer, or so read, are labelled.
    """

    name: str
    pictures: int = 60
    labelled: float = 0.3
    rights: tuple[tuple[float, float], tuple[float, float]] = FAIR
    undecided: float = 0.1
    truth: float = 1.0
    reading: float = 1.0


WORLDS = (
    LabelledReaderWorld("60 pictures, 20 % labelled", labelled=0.2),
    LabelledReaderWorld("60 pictures, 30 % labelled"),
    LabelledReaderWorld("60 pictures, 50 % labelled", labelled=0.5),
    LabelledReaderWorld("200 pictures, 20 % labelled", 200, 0.2),
    LabelledReaderWorld("200 pictures, 20 % labelled, a good machine", 200, 0.2, GOOD),
    LabelledReaderWorld("60 pictures, 50 % labelled, a good machine", labelled=0.5, rights=GOOD),
    LabelledReaderWorld("60 pictures, 30 % labelled, a machine that guesses", rights=BLIND),
    LabelledReaderWorld("60 pictures, 30 % labelled, 30 % undecided", undecided=0.3),
    LabelledReaderWorld("those with the answer are labelled twice as often", truth=2.0),
    LabelledReaderWorld("those so read are labelled twice as often", reading=2.0),
)


def design() -> Design:
    """Return the design of every world."""
    levels = {"model": MODELS, "profession": PROFESSIONS}
    half = dict.fromkeys(PROFESSIONS, 0.5)
    return Design("female", ("female", "male"), ("both",), ("profession",), levels, half, reader="machine")


def draw_pictures(world: LabelledReaderWorld, rng: np.random.Generator) -> pd.DataFrame:
    """Draw pictures with what people said of some of them, and what the machine read in all."""
    cells = len(MODELS) * len(SHARES)
    shape = cells, world.pictures
    share = np.tile(SHARES, len(MODELS))[:, None]
    sensitive = np.linspace(*world.rights[0], cells)[:, None]
    specific = np.linspace(*world.rights[1], cells)[np.arange(cells) * 7 % cells][:, None]  # in another order
    hit = rng.random(shape) < share
    right = rng.random(shape) < np.where(hit, sensitive, specific)
    read = np.where(right, hit, ~hit)
    weight = np.where(hit, world.truth, 1.0) * np.where(read, world.reading, 1.0)
    lots = rng.random(shape) ** (1 / weight)  # the largest: chosen in proportion to their weights
    count = round(world.labelled * world.pictures)
    known = lots.argsort(axis=1).argsort(axis=1) >= world.pictures - count
    names = np.array(["male", "female"])
    answer = np.where(rng.random(shape) < world.undecided, "both", names[hit.astype(int)])
    reading = np.where(rng.random(shape) < DECIDED, names[read.astype(int)], "")
    return pd.DataFrame(
        {
            "model": np.repeat(MODELS, len(SHARES) * world.pictures),
            "profession": np.tile(np.repeat(PROFESSIONS, world.pictures), len(MODELS)),
            "answer": np.where(known, answer, "").ravel(),
            "reading": reading.ravel(),
        }
    )


def correction_rows(
    *, simulations: int = 400, seed: int = 0, worlds: Sequence[LabelledReaderWorld] = WORLDS
) -> pd.DataFrame:
    """Return, for each world, how often intervals hold the share, their widths, the bias and how often it is warned."""
    rows, asked, shares = [], design(), np.tile(SHARES, len(MODELS))
    for world in worlds:
        rng = np.random.default_rng([seed, 1800 + WORLDS.index(world)])
        found = []
        for _ in range(simulations):
            pictures = draw_pictures(world, rng)
            table = corrected_table(pictures, asked)
            p_values = adjust_p_values(table.groupby("model")["p_labelled"].first().to_numpy(), method="holm")
            found.append(
                {
                    "held": (table["low"] <= shares) & (shares <= table["high"]),
                    "width": table["high"] - table["low"],
                    "off": table["share"] - shares,
                    "warned": (p_values <= asked.alpha).any(),
                }
            )
        means = {name: np.mean([one[name] for one in found], axis=0) for name in found[0]}
        by_page = [one["held"].mean() for one in found]
        row = {"world": world.name, "pages": simulations, "error": float(np.std(by_page) / simulations**0.5)}
        numbers = {name: float(np.mean(value)) for name, value in means.items()}
        numbers["off"] = float(np.abs(means["off"]).max())
        rows.append(row | numbers | {"lowest": float(means["held"].min())})
    return pd.DataFrame(rows)


def section_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the section of rows that were simulated before."""
    return render("statistics_labelled_corrections", rows=rows, shares=SHARES, fair=FAIR, good=GOOD)


def page_section(*, simulations: int = 400, seed: int = 0) -> str:
    """Return the part of ``docs/validation/statistics.md`` on shares set right by labels of some pictures."""
    return section_of(correction_rows(simulations=simulations, seed=seed).to_dict("records"))
