"""Checks of simulated runs: two sheets, the second drawn after the labels of the first, or as the first was.

Three ways are compared on the same runs and first sheets: a second sheet that is drawn after the first (``after``), one
that is drawn as the first was (``alike``), and the labels of ``after`` taken as if they had been drawn alike
(``unweighted``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.stats.rates import ALL, detection_rates
from analysis.studies.human_check.check import (
    choose_questions,
    labelled_items,
    questions_of,
    whole_draws,
)
from analysis.studies.human_check.information import expected_squares
from analysis.studies.human_check.next_sheet import draw_next, next_questions
from analysis.studies.human_check.planned import Plan
from analysis.studies.human_check.weights import LabelledUnits, weighted
from lab.validate.human_checks.worlds import CONTRASTS, SIDES, CheckedRun, CheckWorld, draw_run, names

EXTRA = 8
WAYS = ("after", "alike", "unweighted")
FIGURES = tuple((q, i) for q in ("recall", "precision") for i in ("masculine-feminine", *SIDES[1:]))
DIFFERENCES = tuple(place for place, (_, indicator) in enumerate(FIGURES) if "-" in indicator)
LARGE = 40  # runs whose rates together are those of all prompts


def answers(
    run: CheckedRun, questions: pd.DataFrame, world: CheckWorld, rng: np.random.Generator
) -> pd.DataFrame:
    """Return what a person answers, who sees what is there, and leaves out images as the world says."""
    place = {name: number for number, name in enumerate(names())}
    images = questions["sample_id"].str.split("-", expand=True).astype(int)
    cells = (images[0], images[1], questions["object"].map(place))
    there = run.there[cells]
    wrong = (
        pd.Series(there != run.detected[cells]).groupby(questions["sample_id"].to_numpy()).transform("any")
    )
    luck = pd.Series(rng.random(len(questions))).groupby(questions["sample_id"].to_numpy()).transform("first")
    labels = questions.assign(annotator="A", present=np.where(there, "yes", "no"))
    labels = labels if "drawn" in labels else labels.assign(drawn="")
    kept = ~(wrong & (luck < world.skipped)).to_numpy()
    return labels.loc[kept, ["annotator", "sample_id", "object", "present", "drawn"]]


def rates(items: pd.DataFrame, units: LabelledUnits | None) -> pd.DataFrame:
    """Return value, low and high of `FIGURES`, of all objects."""
    items = weighted(items, units).assign(truth=lambda t: t["present"] == "yes", object="any")
    table = detection_rates(items, indicators=SIDES, contrasts=CONTRASTS, resamples=2)
    table = table[table["object"] == ALL].set_index(["quantity", "indicator"])
    return table.loc[list(FIGURES), ["value", "low", "high"]]


def true_rates(world: CheckWorld, seed: int) -> np.ndarray:
    """Return the figures over many runs of a world, whose every question is answered."""
    rng = np.random.default_rng([seed, 77])
    tables = []
    for number in range(max(LARGE * 400 // (world.prompts * world.seeds), LARGE)):
        run = draw_run(world, rng)
        tables.append(all_items(run, rng).assign(run=number))
    items = pd.concat(tables)
    items["prompt"] = items["run"].astype(str) + "-" + items["prompt"].astype(str)
    return rates(items, None)["value"].to_numpy()


def all_items(run: CheckedRun, rng: np.random.Generator) -> pd.DataFrame:
    """Return the answers to questions of all images of a run."""
    draws = whole_draws(run.samples, SIDES)
    questions = run.samples.merge(
        questions_of(draws, run.nouns, run.objects, SIDES, EXTRA, rng), on=["triplet", "seed"]
    )
    labels = answers(run, questions, CheckWorld("all"), rng)
    return labelled_items(labels, run.samples, run.nouns, run.objects)


def checked(world: CheckWorld, rng: np.random.Generator) -> dict[str, Any]:
    """Check one run in each way; return value, low and high of each figure, and the widths that were planned."""
    run, seed = draw_run(world, rng), int(rng.integers(1 << 31))
    draws = whole_draws(run.samples, SIDES)
    tables = run.samples, run.nouns, run.objects
    first = choose_questions(*tables, indicators=SIDES, images=world.images, extra=EXTRA, seed=seed)
    labels = answers(run, first, world, rng)
    items = labelled_items(labels, *tables)
    units = LabelledUnits(items, len(draws))
    expected = expected_squares(
        draws, run.nouns, run.objects, items, indicators=SIDES, contrasts=CONTRASTS, extra=EXTRA
    )
    before = rates(items, units)
    now = (before["high"] - before["low"]).to_numpy()[list(DIFFERENCES)]
    plan = Plan(expected, units, now, 0.95)
    found: dict[str, Any] = {}
    for way, strata in (("after", 5), ("alike", 1)):
        draw = draw_next(expected, units, world.images // len(SIDES), rng, strata=strata)
        size = {"indicators": SIDES, "images": world.images, "extra": EXTRA}
        second = next_questions(draws, draw, *tables, items[:0], units, **size, rng=rng)
        both = pd.concat([labels, answers(run, second, world, rng)], ignore_index=True)
        joined = labelled_items(both, *tables)
        found[way] = rates(joined, LabelledUnits(joined, len(draws))).to_numpy()
        if way == "after":
            found["unweighted"] = rates(joined, None).to_numpy()
            found["planned"] = plan.after(draw)
    return found


def check_rows(world: CheckWorld, simulations: int, seed: int = 0) -> dict[str, Any]:
    """Return coverage, bias, error and width of the ways in one world."""
    truth = true_rates(world, seed)
    rng = np.random.default_rng([seed, 78])
    found = [checked(world, rng) for _ in range(simulations)]
    row: dict[str, Any] = {"world": world.name, "simulations": simulations, "truth": truth.tolist()}
    for way in WAYS:
        values, low, high = np.moveaxis(np.array([one[way] for one in found]), 2, 0)
        row[way] = {
            "held": np.nanmean((low <= truth) & (truth <= high), axis=0).tolist(),
            "off": (np.nanmean(values, axis=0) - truth).tolist(),
            "deviation": np.nanstd(values, axis=0).tolist(),
            "width": np.nanmean(high - low, axis=0).tolist(),
        }
    planned = np.array([one["planned"] for one in found])
    width = np.array([one["after"][list(DIFFERENCES)] for one in found])
    row["planned"] = np.nanmedian(planned / (width[:, :, 2] - width[:, :, 1]), axis=0).tolist()
    return row


def figure_name(place: int) -> str:
    """Return the name of one of `FIGURES`."""
    return " ".join(FIGURES[place])


def lowest(row: Mapping[str, Any], way: str, places: Sequence[int]) -> float:
    """Return the smallest coverage among some figures."""
    return min(row[way]["held"][place] for place in places)
