"""Correctness of claims on objects by runs of benchmark models.

``python -m lab.validate.objects.findings RUN …`` holds every claim that the report would make of an object
(`analysis.tables.objects.claims`) against the exact checker's reading of the same images: the same paired test over all
words of the sides, adjusted in the same way. Every third prompt is labelled, as people might: with labels of all
images the report's claims would be the checker's own.

Coverage: runs are drawn at random from the prompts and seeds of all runs of a benchmark model, with the detections
and the checker's labels that belong to them; what the intervals are to hold is the checker's score in all of them.
Runs need the stages generate and observe.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.stats.detector_correction import Labels, corrected_presence
from analysis.stats.object_counts import ObjectTable, object_table
from analysis.study import comparison, contrasts, indicators
from analysis.tables.objects.claims import (
    COUNTS,
    DETECTOR,
    HEDGED,
    HOLDS,
    LEVEL,
    DetectorCounts,
    claim_table,
    sides_of,
)
from analysis.tables.objects.detector_error import by_lemma, count_errors
from analysis.tables.objects.objects import observed_images
from analysis.tables.objects.statistics import object_statistics
from lab.templates import percent, render
from lab.validate.runs import whole_run
from probes import command_line
from probes.errors import UserError
from probes.prompts.grammar.nouns import lemma
from probes.toyworld import BENCHMARK_MODELS
from probes.toyworld.checker import LEAST, read_images

EVERY = 3  # of so many prompts one is labelled
OCCURRENCES = 10  # detections of an object in a drawn run whose interval counts
KEYS = ["sample_id", "triplet", "seed", "indicator"]


@dataclass(frozen=True)
class RunReading:
    """A run as its detector and as the checker read it.

    Attributes
    ----------
    name, benchmark_model : str
    detected, there : ObjectTable
        Of the detector and of the checker, the same images.
    counts : DataFrame
        Of `analysis.tables.objects.detector_error.count_errors`.
    sides : dict of str to list of str
        See `analysis.tables.objects.claims.claim_table`.
    pairs : list of (str, str)
        First and second indicator of every contrast of the run.
    """

    name: str
    benchmark_model: str
    detected: ObjectTable
    there: ObjectTable
    counts: pd.DataFrame
    sides: dict[str, list[str]]
    pairs: list[tuple[str, str]]


def read_run(path: Path) -> RunReading:
    """Read a run of a benchmark model whose images were observed.

    Raises
    ------
    UserError
        The run is no benchmark model's, lacks a part, or nothing observed its images.
    """
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
    rows = run.objects(["sample_id", "object", "label"])
    rows = rows.assign(lemma=rows["label"].astype(str).map(lemma)).merge(images, on="sample_id")
    rows = rows[(rows["object"] >= 0) & ~rows["lemma"].isin(chosen.individuals)]
    keys = images.rename(columns={"triplet": "prompt"})
    detections = rows.rename(columns={"triplet": "prompt"})[["prompt", "seed", "indicator"]]
    objects = sorted({*seen.columns, *rows["lemma"]})
    matrix = seen.reindex(columns=objects, fill_value=False).to_numpy(int)
    detections = detections.assign(object=rows["lemma"].to_numpy())
    return RunReading(
        name=Path(path).name,
        benchmark_model=run.config.model
        + ("" if run.config.sampler.noise == "own" else f", noise {run.config.sampler.noise}"),
        detected=object_table(keys, detections, indicators=chosen.names, objects=objects),
        there=object_table(keys, matrix, indicators=chosen.names, objects=objects),
        counts=count_errors(images, rows, seen),
        sides=sides_of(members),
        pairs=[(away, towards) for towards, away in contrasts(run.config)],
    )


def findings(reading: RunReading) -> pd.DataFrame:
    """Return what a run would say of each object, and whether the checker's reading says so too.

    Parameters
    ----------
    reading : RunReading

    Returns
    -------
    DataFrame
        ``first``, ``second``, ``object``, ``claim``; ``plain``: significant by the paired test of two words, adjusted
        over objects, as detected; ``there``, ``plain_there``: the same tests of what the checker sees.
    """
    labelled = pd.Index(reading.detected.prompts)[::EVERY]
    counts = DetectorCounts(reading.counts[reading.counts["prompt"].isin(labelled)])
    claims = claim_table(reading.detected, reading.pairs, reading.sides, counts)
    truth = claim_table(reading.there, reading.pairs, reading.sides)
    plain, plain_truth = (
        object_statistics(table, reading.pairs) for table in (reading.detected, reading.there)
    )
    return claims[["first", "second", "object", "claim"]].assign(
        there=(truth["p_pooled_adjusted"] < LEVEL)
        & (truth["difference_words"] * claims["difference_words"] > 0),
        plain=plain["p_bh"] < LEVEL,
        plain_there=(plain_truth["p_bh"] < LEVEL) & (plain_truth["difference"] * plain["difference"] > 0),
    )


def summary(names: Sequence[tuple[str, str]], results: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return findings by run and by benchmark model, and how many of them the checker does not see.

    Parameters
    ----------
    names : sequence of (str, str)
        Benchmark model and run.
    results : sequence of DataFrame
        Of `findings`.
    """
    rows = []
    for benchmark_model in dict.fromkeys(benchmark_model for benchmark_model, _ in names):
        of_model = [(name, table) for (kind, name), table in zip(names, results) if kind == benchmark_model]
        whole = ("all", pd.concat([table for _, table in of_model]))
        for name, table in (*of_model, whole):
            row = {"model": benchmark_model, "run": name}
            for column, chosen, there in (
                ("claimed", table["claim"] == HOLDS, "there"),
                ("of these words", table["claim"] == HEDGED, "there"),
                ("uncorrected", table["plain"], "plain_there"),
            ):
                wrong = table[chosen & ~table[there]]
                row |= {column: int(chosen.sum()), f"{column}, not there": len(wrong)}
                if column == "claimed":
                    row["which"] = ", ".join(wrong["object"])
            row["marked"] = int((table["claim"] == DETECTOR).sum())
            rows.append(row)
    return pd.DataFrame(rows)


def coverage(readings: Sequence[RunReading], *, runs: int = 100, seed: int = 0) -> pd.DataFrame:
    """Return coverage of the intervals of score and difference, over runs resampled from those of one benchmark model.

    Returns
    -------
    DataFrame
        One row per quantity (``score``, ``difference``) and treatment (``corrected``, ``as detected``): ``covered``
        (share), ``intervals``.
    """
    rng, rows = np.random.default_rng([seed, 31]), []
    cells, truth, images = _pooled(readings)
    n = len(readings[0].detected.prompts)
    share = truth.sum(axis=0) / images.sum(axis=0)[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        wanted = {"difference": share[1] - share[0], "score": share[1] / share.sum(axis=0)}
    labelled = np.arange(n) % EVERY == 0
    for _ in range(runs):
        drawn = rng.integers(len(truth), size=n)
        chosen = [cell[drawn] for cell in cells]
        detected, none = chosen[0] + chosen[2], np.zeros(chosen[0].shape)
        some = [np.where(labelled[:, None, None], cell, 0.0) for cell in chosen]
        perfect = Labels(detected, none, none, images[drawn][:, :, None] - detected)
        for name, labels in (("corrected", Labels(*some)), ("as detected", perfect)):
            result = corrected_presence(detected, images[drawn], labels)
            for quantity, value in wanted.items():
                low, high = getattr(result, f"{quantity}_low"), getattr(result, f"{quantity}_high")
                counted = (detected.sum(axis=(0, 1)) >= OCCURRENCES) & ~np.isnan(value) & ~np.isnan(low)
                hit = (low <= value) & (value <= high)
                rows.append((name, quantity, int(hit[counted].sum()), int(counted.sum())))
    table = pd.DataFrame(rows, columns=["treatment", "quantity", "hit", "intervals"])
    table = table.groupby(["treatment", "quantity"], sort=False).sum().reset_index()
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


def as_markdown(table: pd.DataFrame) -> str:
    """Return a table in Markdown; shares in percent."""
    shown = [
        [percent(value) if isinstance(value, float) else value for value in row]
        for row in table.itertuples(index=False)
    ]
    return render("table_alone", texts=list(table.columns), rows=shown)


def page_rows(paths: Sequence[Path], *, runs: int = 100) -> list[dict]:
    """Return claims and coverage of a section of the calibration page: one row per benchmark model over all its runs.

    Parameters
    ----------
    paths : sequence of Path
    runs : int
        Runs drawn for coverage, a benchmark model.

    Returns
    -------
    list of dict
        Those of `summary`, with ``runs``, ``drawn``, ``covered`` (shares by quantity and treatment) and ``intervals``.
    """
    readings = [read_run(path) for path in paths]
    table = summary(
        [(r.benchmark_model, r.name) for r in readings], [findings(reading) for reading in readings]
    )
    rows = []
    for row in table[table["run"] == "all"].drop(columns="run").to_dict("records"):
        own = [r for r in readings if r.benchmark_model == row["model"]]
        rows.append(row | {"runs": len(own), "drawn": runs} | _covered(coverage(own, runs=runs)))
    return rows


def page_section(rows: Sequence[dict]) -> str:
    """Return the section of the calibration page, in Markdown, from the rows of `page_rows`."""
    return render("calibration_objects", runs=rows[0]["drawn"], rows=rows)


def _covered(table: pd.DataFrame) -> dict:
    """Return shares of coverage by quantity and treatment, and how many intervals there are."""
    share = table.set_index(["quantity", "treatment"])["covered"]
    order = itertools.product(("score", "difference"), ("corrected", "as detected"))
    shares = [round(float(share[quantity, treatment]), 4) for quantity, treatment in order]
    return {"covered": shares, "intervals": int(table["intervals"].max())}


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.validate.objects.findings", description=__doc__.split("\n\n")[0]
    )
    main.add_argument(
        "runs", nargs="+", type=command_line.run_directory, help="folders of runs of the benchmark models"
    )
    main.add_argument(
        "--coverage",
        type=command_line.whole(0, 100_000),
        default=0,
        help="runs to draw for coverage (default 0: none)",
    )
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    readings = [read_run(path) for path in options.runs]
    results = [findings(reading) for reading in readings]
    print(as_markdown(summary([(r.benchmark_model, r.name) for r in readings], results)))
    for benchmark_model in dict.fromkeys(r.benchmark_model for r in readings) if options.coverage > 0 else ():
        chosen = [r for r in readings if r.benchmark_model == benchmark_model]
        print(as_markdown(coverage(chosen, runs=options.coverage).assign(model=benchmark_model)))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
