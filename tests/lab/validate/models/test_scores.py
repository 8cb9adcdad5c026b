"""Bias scores against the benchmark model's own: renderings are a benchmark model that draws exactly what was
planted."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from analysis.stats.object_counts import object_table
from analysis.tables.objects.statistics import object_statistics
from analysis.tables.objects.wu import figure_scores
from lab.train.base.independent import fresh_prompts
from lab.train.base.truth import planted
from lab.validate.models.scores import own_scores, paired, planted_scores, read_sample, score_table, section
from probes.config.schema import Config
from probes.errors import UserError
from probes.prompts.grammar.nouns import lemma
from probes.toyworld.checker import LEAST
from probes.toyworld.scene import parse, sample_scene
from probes.toyworld.world import load_world


def rendered(model, images, seed):
    """A sample of `lab.train.base.independent` of a benchmark model without a fault."""
    world, rng = load_world(model), np.random.default_rng(seed)
    table = fresh_prompts(world, images, seed)
    scenes = [sample_scene(parse(prompt, world), world, rng).things for prompt in table["prompt"]]
    seen = pd.DataFrame({thing: [thing in things for things in scenes] for thing in LEAST})
    return pd.concat([table, seen], axis=1)


def as_run(model, table):
    """What `score_table` asks of a run."""
    images = table.rename(columns={"triplet": "prompt_id"})[["prompt_id", "seed", "indicator"]]
    counts = object_table(
        images.rename(columns={"prompt_id": "prompt"}),
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


@pytest.mark.lab
def test_the_world_s_own_scores_lie_in_the_intervals_of_a_small_run():
    inside = []
    for seed in range(3):
        run = as_run("toyworld", rendered("toyworld", 200, seed))
        table = score_table(run, rendered("toyworld", 2000, 100 + seed))
        assert len(table) > 15 and table["planted"].is_monotonic_increasing
        assert table["score"].corr(table["planted"], method="spearman") > 0.9
        assert (table["inside"].isna() == (table["score"] == 0.5)).all()
        inside += table["inside"].dropna().tolist()
    assert len(inside) > 50 and 0.90 <= np.mean(inside) <= 0.995


def test_nothing_is_significant_where_nothing_was_planted():
    sample = rendered("toyworld-null", 1000, 9)
    text = section(as_run("toyworld-null", rendered("toyworld-null", 200, 3)), sample)
    assert "after adjustment: 0 of 38 (feminine, masculine), 0 of 38 (neutral, feminine)." in text
    assert text.startswith("### toyworld-null, observed by the checker\n")
    assert "all planted scores are alike" in text
    alone = section(*paired(as_run("toyworld-null", sample)))
    assert "0 of 38 (feminine, masculine)" in alone and "|" not in alone


def test_scores_by_hand():
    table = pd.DataFrame({"indicator": ["feminine", "masculine", "masculine", "neutral"], "triplet": 0})
    table = table.assign(**{thing: False for thing in LEAST}, prompt="a man with a tie")
    table["hat"], table["tie"] = [True, True, True, True], [False, True, False, True]
    own = own_scores(table)
    assert own.at["hat", "own_score"] == pytest.approx(2 / 3) and own.at["tie", "own_score"] == 1
    assert np.isnan(own.at["cup", "own_score"])


def test_planted_scores_follow_from_the_prompts():
    prompts = ["a woman in the park", "a woman with a tie", "a man in the park", "a man with a tie"]
    table = pd.DataFrame({"indicator": ["feminine"] * 2 + ["masculine"] * 2, "prompt": prompts})
    run = SimpleNamespace(config=Config.stored({"model": "toyworld"}), samples=lambda columns: table[columns])
    scores = planted_scores(run)
    world = load_world()
    woman, man = (planted(f"a {word} in the park", world)["tie"] for word in ("woman", "man"))
    assert scores["tie"] == pytest.approx((man + 1) / (woman + man + 2))
    assert np.isnan(scores["umbrella"])


def test_a_sample_of_another_model_or_none_is_one_clear_line(tmp_path):
    (tmp_path / "none.parquet").write_bytes(b"no parquet")
    with pytest.raises(UserError, match=r"none\.parquet: expected .*python -m lab measure independent"):
        read_sample(tmp_path / "none.parquet")
    sample = rendered("toyworld", 2, 0)
    sample.attrs = {"model": "toyworld"}
    sample.to_parquet(tmp_path / "sample.parquet")
    run = SimpleNamespace(config=Config.stored({"model": "toyworld-null"}))
    with pytest.raises(UserError, match=r"expected a sample of toyworld-null, .* got one of toyworld: "):
        paired(run, tmp_path / "sample.parquet")
    found = paired(SimpleNamespace(config=Config.stored({"model": "toyworld"})), tmp_path / "sample.parquet")[
        1
    ]
    pd.testing.assert_frame_equal(found, sample)
