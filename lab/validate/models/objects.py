"""Correctness of claims on objects by runs of benchmark models.

Every claim that the report would make of an object (`analysis.tables.objects.claims`) is compared with the exact
checker's reading of the same images: the same paired test over all words of the sides, adjusted in the same way. Every
third prompt is labelled, as people might: with labels of all images the report's claims would be the checker's own.

Coverage: runs are drawn at random from the prompts and seeds of all runs of a benchmark model, with the detections
and the checker's labels that belong to them; what the intervals are to hold is the checker's score in all of them.
Runs need the stages generate and observe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.stats.detector_correction import Labels, corrected_presence
from analysis.stats.object_counts import ObjectTable, object_table
from analysis.study import comparison, contrasts, indicators
from analysis.tables.object_tables import observed_images
from analysis.tables.objects.claims import (
    COUNTS,
    DETECTOR,
    HOLDS,
    DetectorCounts,
    claim_table,
    sides_of,
)
from analysis.tables.objects.detector_error import by_lemma, count_errors
from analysis.tables.objects.statistics import object_statistics
from lab.validate.runs import whole_run
from probes.errors import UserError
from probes.prompts.grammar.nouns import lemma
from probes.toyworld import BENCHMARK_MODELS
from probes.toyworld.checker import LEAST, read_images

ALPHA = 0.05  # of false claims among the claims
EVERY = 3  # of so many prompts one is labelled
OCCURRENCES = 10  # detections of an object in a drawn run whose interval counts


@dataclass(frozen=True)
class RunReading:
    """A run as its detector and as the checker read it, the same images; `sides` and `pairs` of its contrasts."""

    benchmark_model: str
    detected: ObjectTable
    there: ObjectTable
    counts: pd.DataFrame  # of `count_errors`
    sides: dict[str, list[str]]
    pairs: list[tuple[str, str]]


def read_run(path: Path) -> RunReading:
    """A run of a benchmark model whose images were observed; a UserError where it is none."""
    run = whole_run(path)
    if run.config.model not in BENCHMARK_MODELS or not run.parts("objects"):
        what = "no objects" if run.config.model in BENCHMARK_MODELS else f"a run of {run.config.model}"
        raise UserError(
            f"{path}: expected a run of {', '.join(BENCHMARK_MODELS)} whose images were observed, got "
            f"{what}: draw one by "
            "python -m probes.run, stages generate and observe"
        )
    images, members = observed_images(run), indicators(run.config)
    chosen = comparison(run.config)
    seen = by_lemma(read_images(run.images(images["sample_id"]))[list(LEAST)].set_axis(images["sample_id"]))
    rows = run.read("objects", ["sample_id", "object", "label"])
    rows = rows.assign(lemma=rows["label"].astype(str).map(lemma)).merge(images, on="sample_id")
    rows = rows[(rows["object"] >= 0) & ~rows["lemma"].isin(chosen.individuals)]
    keys = images.rename(columns={"triplet": "prompt"})
    objects = sorted({*seen.columns, *rows["lemma"]})
    matrix = seen.reindex(columns=objects, fill_value=False).to_numpy(int)
    detected = pd.crosstab(rows["sample_id"], rows["lemma"])
    detected = detected.reindex(index=images["sample_id"], columns=objects, fill_value=0).to_numpy(int)
    return RunReading(
        benchmark_model=run.config.model
        + ("" if run.config.sampler.noise == "own" else f", noise {run.config.sampler.noise}"),
        detected=object_table(keys, detected, indicators=chosen.names, objects=objects),
        there=object_table(keys, matrix, indicators=chosen.names, objects=objects),
        counts=count_errors(images, rows, seen),
        sides=sides_of(members),
        pairs=[(away, towards) for towards, away in contrasts(run.config)],
    )


def findings(reading: RunReading) -> pd.DataFrame:
    """The claim on each object of a run (``claim``), and whether the checker's reading says so too (``there``).

    ``plain``: significant by the paired test of two words, adjusted over objects, as detected; ``plain_there``: the
    same test of what the checker sees.
    """
    labelled = pd.Index(reading.detected.prompts)[::EVERY]
    counts = DetectorCounts(reading.counts[reading.counts["prompt"].isin(labelled)])
    claims = claim_table(reading.detected, reading.pairs, reading.sides, counts)
    truth = claim_table(reading.there, reading.pairs, reading.sides)
    plain, plain_truth = (
        object_statistics(table, reading.pairs) for table in (reading.detected, reading.there)
    )
    return claims[["first", "second", "object", "claim"]].assign(
        there=(truth["p_objects"] < ALPHA) & (truth["difference"] * claims["difference"] > 0),
        plain=plain["p_objects"] < ALPHA,
        plain_there=(plain_truth["p_objects"] < ALPHA)
        & (plain_truth["difference"] * plain["difference"] > 0),
    )


def counted(tables: Sequence[pd.DataFrame]) -> dict:
    """`findings` of all runs of a model, counted, and how many of them the checker does not see."""
    table, row = pd.concat(list(tables)), {}
    for column, chosen, there in (
        ("claimed", table["claim"] == HOLDS, "there"),
        ("uncorrected", table["plain"], "plain_there"),
    ):
        wrong = table[chosen & ~table[there]]
        row |= {column: int(chosen.sum()), f"{column}, not there": len(wrong)}
        if column == "claimed":
            row["which"] = ", ".join(wrong["object"])
    return row | {"marked": int((table["claim"] == DETECTOR).sum())}


def coverage(readings: Sequence[RunReading], *, runs: int = 100, seed: int = 0) -> pd.DataFrame:
    """Coverage of the intervals of differences, over runs resampled from those of one benchmark model.

    One row per treatment (``corrected``, ``as detected``): ``covered`` (share) and ``intervals``.
    """
    rng, rows = np.random.default_rng([seed, 31]), []
    cells, truth, images = _pooled(readings)
    n = len(readings[0].detected.prompts)
    share = truth.sum(axis=0) / images.sum(axis=0)[:, None]
    value = share[1] - share[0]
    labelled = np.arange(n) % EVERY == 0
    for _ in range(runs):
        drawn = rng.integers(len(truth), size=n)
        chosen = [cell[drawn] for cell in cells]
        detected, none = chosen[0] + chosen[2], np.zeros(chosen[0].shape)
        some = [np.where(labelled[:, None, None], cell, 0.0) for cell in chosen]
        perfect = Labels(detected, none, none, images[drawn][:, :, None] - detected)
        for name, labels in (("corrected", Labels(*some)), ("as detected", perfect)):
            result = corrected_presence(detected, images[drawn], labels)
            low, high = result.difference_low, result.difference_high
            counted = (detected.sum(axis=(0, 1)) >= OCCURRENCES) & ~np.isnan(low)
            hit = (low <= value) & (value <= high)
            rows.append((name, int(hit[counted].sum()), int(counted.sum())))
    table = pd.DataFrame(rows, columns=["treatment", "hit", "intervals"])
    table = table.groupby("treatment", sort=False).sum().reset_index()
    return table.assign(covered=table["hit"] / table["intervals"]).drop(columns="hit")


def _pooled(readings: Sequence[RunReading]) -> tuple[list[NDArray], NDArray, NDArray]:
    """Error counts, images with each object and images, by prompt of all runs and by side of the first contrast."""
    objects = sorted(set.union(*(set(reading.counts["object"]) for reading in readings)))
    cells, images = [[] for _ in COUNTS], []
    for reading in readings:
        prompts = pd.Index(reading.detected.prompts)
        sides = [reading.sides[name] for name in reading.pairs[0]]
        known = reading.counts
        row, what = prompts.get_indexer(known["prompt"]), pd.Index(objects).get_indexer(known["object"])
        side = np.select([known["indicator"].isin(names) for names in sides], [0, 1], -1)
        keep = (row >= 0) & (side >= 0)
        for store, name in zip(cells, COUNTS):
            cell = np.zeros((len(prompts), 2, len(objects)))
            np.add.at(cell, (row[keep], side[keep], what[keep]), known[name].to_numpy(np.float64)[keep])
            store.append(cell)
        images.append(np.stack([reading.detected.seeds * len(names) for names in sides], axis=1))
    joined = [np.concatenate(store) for store in cells]
    return joined, joined[0] + joined[1], np.concatenate(images)


def page_rows(paths: Sequence[Path], *, runs: int = 100) -> list[dict]:
    """Claims (`counted`) and coverage, over so many drawn runs, of each benchmark model over all its runs."""
    readings, rows = [read_run(path) for path in paths], []
    for model in dict.fromkeys(reading.benchmark_model for reading in readings):
        own = [reading for reading in readings if reading.benchmark_model == model]
        row = {"model": model, **counted([findings(reading) for reading in own])}
        rows.append(row | {"runs": len(own), "drawn": runs} | _covered(coverage(own, runs=runs)))
    return rows


def _covered(table: pd.DataFrame) -> dict:
    """Return shares of coverage by treatment, and how many intervals there are."""
    share = table.set_index("treatment")["covered"]
    shares = [round(float(share[treatment]), 4) for treatment in ("corrected", "as detected")]
    return {"covered": shares, "intervals": int(table["intervals"].max())}
