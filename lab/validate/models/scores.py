"""Bias scores of a run of a benchmark model, beside the model's own scores and the ground truth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.stats import spearmanr

from lab.templates import render
from lab.train.base.truth import planted
from probes.errors import UserError
from probes.prompts.grammar.nouns import lemma
from probes.runs.run import Run
from probes.toyworld.checker import LEAST
from probes.toyworld.world import load_world

FIRST, SECOND = "feminine", "masculine"
OCCURRENCES = 30  # of both indicators together
ENGINES = {
    "toyworld-checker": "the checker",
    "groundingdino": "Grounding DINO and Segment Anything",
    "transformers": "Grounding DINO and Segment Anything of transformers",
}
COLUMNS = ("triplet", "seed", "indicator", "prompt", *LEAST)


def read_sample(path: Path) -> tuple[str, pd.DataFrame]:
    """Name of the benchmark model and what the checker saw, of a file of `lab.train.base.independent`."""
    try:
        table = pq.read_table(path).to_pandas()
    except (OSError, pa.ArrowException) as error:
        raise UserError(
            f"--scores: {path}: expected a Parquet file ({type(error).__name__}): make it by "
            "python -m lab measure independent"
        ) from error
    missing = [name for name in COLUMNS if name not in table] + ["model"] * ("model" not in table.attrs)
    if missing:
        raise UserError(
            f"--scores: {path}: expected what the checker saw of a benchmark model, got no {missing[0]!r}: make it by "
            "python -m lab measure independent"
        )
    return table.attrs["model"], table


def paired(run: Run, path: Path | None = None) -> tuple[Run, pd.DataFrame | None]:
    """A run and the sample that it is to be compared with, if there is one; a UserError where it is another model's."""
    if path is None:
        return run, None
    benchmark_model, sample = read_sample(path)
    if run.config.model != benchmark_model:
        raise UserError(
            f"--scores: {path}: expected a sample of {run.config.model}, as the run is, got one of {benchmark_model}: "
            "name the one that belongs to it"
        )
    return run, sample


def own_scores(sample: pd.DataFrame) -> pd.DataFrame:
    """The benchmark model's bias scores, one row per thing: ``own_score`` and images ``own_first``, ``own_second``."""
    counts = sample.groupby("indicator", sort=False)[list(LEAST)].sum()
    first, second = counts.loc[FIRST], counts.loc[SECOND]
    return pd.DataFrame({"own_first": first, "own_second": second, "own_score": second / (first + second)})


def planted_scores(run: Run) -> pd.Series:
    """Bias score of every thing if a run's prompts were drawn as planted, many times; NaN where it never comes."""
    samples = run.samples(["indicator", "prompt"])
    world = load_world(run.config.model)
    sums = {}
    for indicator in (FIRST, SECOND):
        chosen = samples.loc[samples["indicator"] == indicator, "prompt"]
        sums[indicator] = pd.DataFrame([planted(prompt, world) for prompt in chosen]).sum()[list(LEAST)]
    total = sums[FIRST] + sums[SECOND]
    return sums[SECOND] / total.where(total > 0)


def score_table(run: Run, sample: pd.DataFrame, *, min_images: int = OCCURRENCES) -> pd.DataFrame:
    """One row per object seen in at least `min_images` images of both indicators, ordered by its planted score.

    ``first`` and ``second`` are images, ``p_objects`` of the exact paired test, adjusted over all objects of the run;
    ``inside``: whether the benchmark model's own score lies within the interval, missing where there is none.
    """
    tests = run.table("object_tests")
    tests = tests[(tests["group"] == "all") & (tests["first"] == FIRST) & (tests["second"] == SECOND)]
    scores = run.table("figure04_bias_scores")[
        ["group", "first", "second", "object", "bias_score", "low", "high"]
    ]
    tests = tests.merge(scores, on=["group", "first", "second", "object"])
    tests = tests.set_index(tests["object"].astype(str))
    names = pd.DataFrame({"thing": list(LEAST), "object": [lemma(thing) for thing in LEAST]})
    names = names[names["object"].isin(tests.index)].set_index("thing")
    chosen = tests.loc[names["object"]].set_axis(names.index)
    columns = {
        **{"images_first": "first", "images_second": "second", "bias_score": "score"},
        **{"low": "low", "high": "high", "p_objects": "p_objects"},
    }
    table = chosen[list(columns)].rename(columns=columns).join(own_scores(sample))
    table["planted"] = planted_scores(run)
    table = table[table["first"] + table["second"] >= min_images]
    inside = (table["low"] <= table["own_score"]) & (table["own_score"] <= table["high"])
    table["inside"] = inside.astype("boolean").mask(table["low"].isna())
    return table.sort_values("planted").reset_index()


def significant(run: Run, alpha: float = 0.05) -> str:
    """In how many objects a run's words differ by its own tests, adjusted over objects, in a sentence."""
    tests = run.table("object_tests")
    tests = tests[tests["group"] == "all"]
    pairs = tests.groupby(["first", "second"], observed=True, sort=False)["p_objects"]
    counts = [f"{int((p < alpha).sum())} of {len(p)} ({a}, {b})" for (a, b), p in pairs]
    return f"Objects that differ by the run's own paired tests, after adjustment: {', '.join(counts)}."


def section(run: Run, sample: pd.DataFrame | None) -> str:
    """Return the part of the calibration page on one run, in Markdown."""
    about = {
        "model": run.config.model,
        "engine": ENGINES[run.meta["observer"]["engine"]],
        "significant": significant(run),
    }
    if sample is None:
        return render("calibration_scores", objects=None, **about)
    table, ranks = score_table(run, sample), None
    if np.ptp(table["planted"]) > 1e-9:
        ranks = [spearmanr(table[name], table["planted"]).statistic for name in ("score", "own_score")]
    return render(
        "calibration_scores",
        **about,
        objects=len(table),
        outside=list(table.loc[~table["inside"].fillna(True), "thing"]),
        ranks=ranks,
        occurrences=OCCURRENCES,
        images=run.samples(["indicator"])["indicator"].value_counts()[FIRST],
        fresh=sample["indicator"].value_counts()[FIRST],
        held=int(table["inside"].notna().sum()),
        inside=int(table["inside"].sum()),
    )
