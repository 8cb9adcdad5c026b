"""Checks of simulated runs: two sheets, the second of which asks all, or what the labels of the first suggest.

Both ways are compared on the same runs, first sheets and images. ``unweighted`` are rates that take all questions of
the second sheet as if they had been asked alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.stats.rates import ALL, detection_rates
from analysis.studies.human_check.check import (
    choose_questions,
    questions_of,
    whole_draws,
)
from analysis.studies.human_check.information import expected_squares
from analysis.studies.human_check.next_sheet import ASKED, choose_among, draw_next, sheet_of
from analysis.studies.human_check.planned import sheet_plan
from lab.validate.human_checks.worlds import CONTRASTS, SIDES, CheckedRun, CheckWorld, draw_run, names

EXTRA = 8
ALL_ASKED = "all"
FIGURES = tuple((q, i) for q in ("recall", "precision") for i in ("masculine-feminine", *SIDES[1:]))
DIFFERENCES = tuple(place for place, (_, indicator) in enumerate(FIGURES) if "-" in indicator)
LARGE = 80  # runs whose rates together are those of all prompts


def answers(
    run: CheckedRun, questions: pd.DataFrame, world: CheckWorld, rng: np.random.Generator
) -> pd.DataFrame:
    """Return what a person answers, who sees what is there, and leaves out images as the world says."""
    place = {name: number for number, name in enumerate(names())}
    image = pd.Index(run.samples["sample_id"]).get_indexer(questions["sample_id"])
    cells = (*np.divmod(image, len(SIDES)), questions["object"].map(place).to_numpy())
    wrong = (run.there != run.detected).any(axis=2).ravel()[image]
    luck = rng.random(len(run.samples))[image]
    labels = questions.assign(annotator="A", present=np.where(run.there[cells], "yes", "no"))
    labels["weight"] = 1 / labels["chance"] if "chance" in labels else 1.0
    kept = ["annotator", "sample_id", "object", "present", "weight"]
    return labels.loc[~(wrong & (luck < world.skipped)), kept]


def items_of(run: CheckedRun, labels: pd.DataFrame) -> pd.DataFrame:
    """Return what `analysis.studies.human_check.check.labelled_items` does, in a fraction of its time."""
    place = {name: number for number, name in enumerate(names())}
    image = pd.Index(run.samples["sample_id"]).get_indexer(labels["sample_id"])
    (unit, side), thing = np.divmod(image, len(SIDES)), labels["object"].map(place).to_numpy()
    named = run.named[run.samples["triplet"].to_numpy()[image], thing]
    near = run.detected.any(axis=1)[unit, thing]
    rows = run.samples.iloc[image].reset_index(drop=True)
    return labels.reset_index(drop=True).assign(
        prompt=rows["triplet"],
        seed=rows["seed"],
        indicator=rows["indicator"],
        detected=run.detected[unit, side, thing],
        asked=np.where(named, "prompt", np.where(near, "found", "other")),
    )


def rates(items: pd.DataFrame) -> pd.DataFrame:
    """Return value, low and high of `FIGURES`, of all objects."""
    items = items.assign(truth=lambda t: t["present"] == "yes", object="any")
    table = detection_rates(items, indicators=SIDES, contrasts=CONTRASTS, resamples=2)
    table = table[table["object"] == ALL].set_index(["quantity", "indicator"])
    return table.loc[list(FIGURES), ["value", "low", "high"]]


def unweighted(items: pd.DataFrame) -> list[float]:
    """Return the differences of recall and precision as if all questions had been asked alike."""
    yes, found = items["present"] == "yes", items["detected"]
    differences = []
    for of in (yes, found):
        share = (yes & found)[of].groupby(items["indicator"][of]).mean()
        differences.append(float(share["masculine"] - share["feminine"]))
    return differences


def true_rates(world: CheckWorld, seed: int) -> np.ndarray:
    """Return the figures over many runs of a world, whose every question is answered."""
    rng = np.random.default_rng([seed, 77])
    tables = []
    for number in range(LARGE):
        run = draw_run(world, rng)
        tables.append(all_items(run, rng).assign(run=number))
    items = pd.concat(tables)
    items["prompt"] = items["run"].astype(str) + "-" + items["prompt"].astype(str)
    return rates(items)["value"].to_numpy()


def all_items(run: CheckedRun, rng: np.random.Generator) -> pd.DataFrame:
    """Return the answers to questions of all images of a run."""
    draws = whole_draws(run.samples, SIDES)
    questions = run.samples.merge(
        questions_of(draws, run.nouns, run.objects, SIDES, EXTRA, rng), on=["triplet", "seed"]
    )
    labels = answers(run, questions, CheckWorld("all"), rng)
    return items_of(run, labels)


def checked(
    world: CheckWorld, rng: np.random.Generator, shares: Sequence[float] = (ASKED,)
) -> dict[str, Any]:
    """Check one run in each way; return value, low and high of each figure, and the widths that were planned."""
    run, seed = draw_run(world, rng), int(rng.integers(1 << 31))
    draws, tables = whole_draws(run.samples, SIDES), (run.samples, run.nouns, run.objects)
    first = choose_questions(*tables, indicators=SIDES, images=world.images, extra=EXTRA, seed=seed)
    labels = answers(run, first, world, rng)
    items = items_of(run, labels)
    expected = expected_squares(draws, *tables[1:], items, indicators=SIDES, contrasts=CONTRASTS, extra=EXTRA)
    before = rates(items)
    now = (before["high"] - before["low"]).to_numpy()[list(DIFFERENCES)]
    chosen = draw_next(draws, items, run.samples, world.images // len(SIDES), rng)
    full = questions_of(chosen, *tables[1:], SIDES, EXTRA, rng)
    luck = int(rng.integers(1 << 31))  # the same images are left out in each way
    found: dict[str, Any] = {}
    for way in (ALL_ASKED, *shares):
        whole = way == ALL_ASKED
        asked = full.assign(chance=1.0) if whole else choose_among(full, expected, rng, float(way))
        second = sheet_of(
            asked, run.samples, first[:0].assign(chance=1.0), SIDES, np.random.default_rng(luck)
        )
        more = answers(run, second, world, np.random.default_rng(luck))
        joined = items_of(run, pd.concat([labels, more], ignore_index=True))
        found[str(way)] = {
            "rates": rates(joined).to_numpy(),
            "unweighted": unweighted(joined),
            "planned": sheet_plan(items, asked, expected, now).expected(len(chosen)),
            "questions": len(second) / (len(full) * len(SIDES)),
        }
    return found


def check_rows(
    world: CheckWorld, simulations: int, seed: int = 0, shares: Sequence[float] = (ASKED,)
) -> list[dict[str, Any]]:
    """Return coverage, bias, error and width of each way in one world: all is asked on the second sheet, or a share."""
    truth, rng = true_rates(world, seed), np.random.default_rng([seed, 78])
    found = [checked(world, rng, shares) for _ in range(simulations)]
    return [_row(world, truth, found, str(way)) for way in (ALL_ASKED, *shares)]


def _row(
    world: CheckWorld, truth: np.ndarray, found: Sequence[Mapping[str, Any]], way: str
) -> dict[str, Any]:
    own, whole = ([one[name] for one in found] for name in (way, ALL_ASKED))
    values, low, high = np.moveaxis(np.array([one["rates"] for one in own]), 2, 0)
    planned, width = np.array([one["planned"] for one in own]), (high - low)[:, list(DIFFERENCES)]
    beside = np.array([one["rates"][:, 0] for one in whole])
    alike = np.array([one["unweighted"] for one in own])
    return {
        "world": world.name,
        "asked": way,
        "simulations": len(found),
        "questions": float(np.mean([one["questions"] for one in own])),
        "truth": truth.tolist(),
        "held": ((low <= truth) & (truth <= high)).mean(axis=0).tolist(),
        "off": np.nanmean(values - beside, axis=0).tolist(),
        "off_error": (np.nanstd(values - beside, axis=0, ddof=1) / len(found) ** 0.5).tolist(),
        "off_unweighted": np.nanmean(alike - beside[:, list(DIFFERENCES)], axis=0).tolist(),
        "deviation": np.nanstd(values, axis=0, ddof=1).tolist(),
        "width": np.nanmean(high - low, axis=0).tolist(),
        "planned": np.nanmedian(planned / width, axis=0).tolist(),
    }
