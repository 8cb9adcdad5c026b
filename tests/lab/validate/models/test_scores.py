"""Bias scores against the planted ones: renderings are a benchmark model that draws exactly what was planted."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from analysis.stats.object_counts import object_table
from analysis.tables.objects.statistics import object_statistics
from analysis.tables.objects.wu import figure_scores
from lab.train.base.captions import random_caption
from lab.train.base.truth import planted
from lab.validate.models.scores import measure, planted_scores, score_table
from probes.config.schema import Config
from probes.prompts.grammar.nouns import lemma
from probes.toyworld.checker import LEAST
from probes.toyworld.scene import parse, sample_scene
from probes.toyworld.world import load_world

ARTICLES = {"neutral": "a person", "feminine": "a woman", "masculine": "a man"}


def rendered(model, images, seed):
    """What a study of renderings has: prompts of three words each, and whether each thing is there."""
    world, rng = load_world(model), np.random.default_rng(seed)
    rows, seen = [], []
    while len(rows) < 3 * images:
        _, word, *rest = random_caption(world, rng)[0].removeprefix("a photo of ").split()
        if word in world.words("neutral") and rest[:1] != ["and"]:
            for indicator, words in ARTICLES.items():
                prompt = " ".join([words, *rest])
                rows.append({"triplet": len(rows) // 3, "seed": 0, "indicator": indicator, "prompt": prompt})
                seen.append(sample_scene(parse(prompt, world), world, rng).things)
    there = pd.DataFrame({thing: [thing in things for things in seen] for thing in LEAST})
    return pd.concat([pd.DataFrame(rows), there], axis=1)


def as_run(model, table):
    """What `measure` asks of a run."""
    images = table[["triplet", "seed", "indicator"]].rename(columns={"triplet": "prompt"})
    counts = object_table(
        images,
        table[list(LEAST)].to_numpy(dtype=int),
        indicators=("neutral", "feminine", "masculine"),
        objects=[lemma(thing) for thing in LEAST],
    )
    pairs = [("feminine", "masculine"), ("neutral", "feminine")]
    tables = {
        "object_tests": object_statistics(counts, pairs).assign(group="all"),
        "figure04_bias_scores": figure_scores({"all": counts}, pairs),
    }
    return SimpleNamespace(
        config=Config.stored({"model": model}),
        meta={"observer": {"engine": "toyworld-checker"}},
        table=tables.__getitem__,
        samples=lambda columns: table[columns],
    )


def test_scores_rank_as_planted_in_a_small_run():
    run = as_run("toyworld", rendered("toyworld", 200, 0))
    table, row = score_table(run), measure(run)
    assert len(table) == row["objects"] > 15 and row["images"] == 200
    assert row["rank"] > 0.9 and row["engine"] == "the checker"
    assert int(row["differ"][0].split()[0]) > 3


def test_nothing_is_significant_where_nothing_was_planted():
    row = measure(as_run("toyworld-null", rendered("toyworld-null", 200, 3)))
    assert row["rank"] is None
    assert row["differ"] == ["0 of 38 (feminine, masculine)", "0 of 38 (neutral, feminine)"]


def test_planted_scores_follow_from_the_prompts():
    prompts = ["a woman in the park", "a woman with a tie", "a man in the park", "a man with a tie"]
    table = pd.DataFrame({"indicator": ["feminine"] * 2 + ["masculine"] * 2, "prompt": prompts})
    run = SimpleNamespace(config=Config.stored({"model": "toyworld"}), samples=lambda columns: table[columns])
    scores = planted_scores(run)
    world = load_world()
    woman, man = (planted(f"a {word} in the park", world)["tie"] for word in ("woman", "man"))
    assert scores["tie"] == pytest.approx((man + 1) / (woman + man + 2))
    assert np.isnan(scores["umbrella"])
