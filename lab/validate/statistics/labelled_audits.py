"""How often the page of an audit of labelled pictures says something false, in the design of five models.

Five professions, two settings, ten pictures of each, five models. Where nothing differs whatever the page says is
false; where only professions do, whatever it says of settings and of models is. Pictures may be undecided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.methods.audit.claims import QUESTIONS, question_rows
from analysis.methods.audit.design import Design
from analysis.methods.audit.labelled_audit import measure_cells
from lab.templates import render

PROFESSIONS = ("athlete", "CEO", "nurse", "software engineer", "teacher")
SETTINGS = ("baseline", "diversity")
MODELS = ("A", "B", "C", "D", "E")
PICTURES = 10
EXTREME = (0.1, 0.95, 0.05, 0.9, 0.5)
EVERY = ("reference", "shares", "between", "contrast", "distance", "models", "ranks")


@dataclass(frozen=True)
class LabelledWorld:
    """What labelled pictures are drawn from.

    Shares are by profession, the same in every model and setting; whatever is said of the questions in `false` is
    false.
    """

    name: str
    shares: tuple[float, ...] = (0.5,) * 5
    reference: float = 0.5
    undecided: float = 0.0
    false: tuple[str, ...] = EVERY


WORLDS = (
    LabelledWorld("nothing differs from one half"),
    LabelledWorld("nothing differs, 15 % undecided", undecided=0.15),
    LabelledWorld("nothing differs from 0.2, compared with 0.2", (0.2,) * 5, 0.2),
    LabelledWorld("professions differ, models and settings do not", EXTREME, false=EVERY[3:]),
    LabelledWorld("all shares 0.9, professions do not differ", (0.9,) * 5, false=EVERY[2:]),
)


def draw_cells(world: LabelledWorld, rng: np.random.Generator) -> pd.DataFrame:
    """Draw the counts of a page's pictures."""
    keys = pd.MultiIndex.from_product(
        [MODELS, PROFESSIONS, SETTINGS], names=["model", "profession", "setting"]
    )
    cells = keys.to_frame(index=False).assign(pictures=PICTURES)
    cells["decided"] = rng.binomial(PICTURES, 1 - world.undecided, len(cells))
    cells["count"] = rng.binomial(
        cells["decided"], cells["profession"].map(dict(zip(PROFESSIONS, world.shares)))
    )
    return cells.assign(reference=world.reference, reference_n=0)


def design_of(world: LabelledWorld, permutations: int = 1000, seed: int = 0) -> Design:
    """Return the design of a world's pages."""
    levels = {"model": MODELS, "profession": PROFESSIONS, "setting": SETTINGS}
    reference = dict.fromkeys(PROFESSIONS, world.reference)
    return Design(
        *("female", ("female", "male"), ("both",), ("profession", "setting"), levels, reference),
        permutations=permutations,
        seed=seed,
    )


def page_rows(
    *,
    simulations: int = 500,
    permutations: int = 1000,
    seed: int = 0,
    worlds: Sequence[LabelledWorld] = WORLDS,
) -> pd.DataFrame:
    """Return how many pages of each world say something false, and how much is said of each question on average."""
    rows = []
    for world in worlds:
        number = WORLDS.index(world)
        rng = np.random.default_rng([seed, 1700 + number])
        said = pd.DataFrame(
            [
                claims(measure_cells(draw_cells(world, rng), own), own)
                for own in (design_of(world, permutations, one) for one in range(simulations))
            ]
        )
        false = float((said[list(world.false)].sum(axis=1) > 0).mean())
        error = float(np.sqrt(max(false * (1 - false), 1e-12) / simulations))
        row = {"world": world.name, "pages": simulations, "false": false, "error": error}
        rows.append(row | {name: float(said[name].mean()) for name in EVERY})
    return pd.DataFrame(rows)


def claims(tables: Mapping[str, pd.DataFrame], design: Design) -> dict[str, int]:
    """How many results a page states, by question."""
    pages = {name: question_rows(tables, name) for name in QUESTIONS} | {"shares": tables["shares"]}
    return {name: int((rows["p_adjusted"] <= design.alpha).sum()) for name, rows in pages.items()}


def page_section(*, simulations: int = 500, seed: int = 0) -> str:
    """Return the part of ``docs/validation/statistics.md`` on audits of labelled pictures, in Markdown."""
    rows = page_rows(simulations=simulations, seed=seed).to_dict("records")
    return section_of(rows)


def section_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the section of rows that were simulated before."""
    falsehoods = {world.name: [name for name in EVERY if name not in world.false] for world in WORLDS}
    shown = [
        {**row, "true": falsehoods[row["world"]], "figures": [row[name] for name in EVERY]} for row in rows
    ]
    return render("statistics_labelled_audits", rows=shown, counted=EVERY)
