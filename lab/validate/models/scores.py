"""Bias scores of a run of a benchmark model, compared with the scores that follow from what was planted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from lab.train.base.truth import planted
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


def score_table(run: Run, *, min_images: int = OCCURRENCES) -> pd.DataFrame:
    """``score`` and ``planted`` of each object seen in at least `min_images` images of both indicators together."""
    pair = {"group": "all", "first": FIRST, "second": SECOND}
    keys = [*pair, "object"]
    tests = run.table("object_tests")[[*keys, "images_first", "images_second"]]
    table = tests.merge(run.table("figure04_bias_scores")[[*keys, "bias_score"]], on=keys)
    table = table[(table[list(pair)] == list(pair.values())).all(axis=1)].set_index("object")
    table.index = table.index.astype(str)
    names = pd.Series({thing: lemma(thing) for thing in LEAST})
    names = names[names.isin(table.index)]
    own = table.loc[names].set_axis(names.index)
    seen = own["images_first"] + own["images_second"] >= min_images
    table = pd.DataFrame({"score": own["bias_score"], "planted": planted_scores(run).reindex(own.index)})
    return table[seen]


def differing(run: Run, alpha: float = 0.05) -> list[str]:
    """In how many objects a run's words differ by its own paired tests, adjusted over objects, a pair each."""
    tests = run.table("object_tests")
    pairs = tests[tests["group"] == "all"].groupby(["first", "second"], observed=True, sort=False)[
        "p_objects"
    ]
    return [f"{int((p < alpha).sum())} of {len(p)} ({a}, {b})" for (a, b), p in pairs]


def measure(run: Run) -> dict[str, Any]:
    """The row of the page: objects, images an indicator, rank correlation with the planted scores (None: all alike)."""
    table, rank = score_table(run), None
    if np.ptp(table["planted"]) > 1e-9:
        rank = round(float(spearmanr(table["score"], table["planted"]).statistic), 3)
    return {
        "model": run.config.model,
        "engine": ENGINES[run.meta["observer"]["engine"]],
        "objects": len(table),
        "images": int(run.samples(["indicator"])["indicator"].value_counts()[FIRST]),
        "rank": rank,
        "differ": differing(run),
    }
