"""The gap of each triplet: against plain pandas, and its mean against ``tables/gap``."""

import numpy as np
import pandas as pd
import pytest

from analysis.metrics.registry import headline_metrics
from analysis.tables.registry import read
from analysis.tables.similarities.gap import GapChoices
from analysis.tables.similarities.headline import NO_PAIR, PROMPT_COLUMNS, gap_prompts
from analysis.tables.similarities.similarities import from_table

MEASURES = [metric for metric in headline_metrics() if metric.needs != "features"]
CHOICES = GapChoices(indicators=["n", "f", "m"], reference="n", contrasts=[("m", "f")])
Z0 = next(metric for metric in MEASURES if metric.key == "z0")


def test_each_gap_by_plain_pandas(run, pairs):
    table = read(run, "gap_prompts")
    assert tuple(table.columns) == PROMPT_COLUMNS and len(table) == 9 * len(MEASURES)
    prompts = run.samples(["triplet", "prompt_id"]).drop_duplicates().set_index("triplet")["prompt_id"]
    assert (table["prompt_id"] == table["triplet"].map(prompts)).all() and (table["n_seeds"] == 2).all()
    for metric in MEASURES:
        own = table[table["measure"] == metric.key].set_index("triplet")
        rows = pairs[(pairs["site"] == metric.site) & (pairs["metric"] == metric.metric)]
        wide = rows.astype({"value": float, "pair": str}).pivot_table("value", "triplet", "pair")
        first, second = wide["neutral-masculine"], wide["neutral-feminine"]
        np.testing.assert_allclose(own["similarity_first"], first, rtol=1e-12)
        np.testing.assert_allclose(own["similarity_second"], second, rtol=1e-12)
        sign = -1 if metric.key == "diff_pix" else 1
        np.testing.assert_allclose(own["gap"], sign * (first - second), rtol=0, atol=1e-12)


def small(values):
    """Similarities n-f and n-m of one prompt, by seed."""
    rows = [
        {"pair": pair, "triplet": 3, "seed": seed, "value": value}
        for seed, both in enumerate(values)
        for pair, value in zip(("n-f", "n-m"), both)
    ]
    return pd.DataFrame(rows).assign(space="denoising", site="latent.final", metric="cosine", step=-1)


def test_a_seed_without_one_of_both_counts_in_none():
    table = small([(0.5, 0.8), (0.1, np.nan), (0.6, 0.7)])
    row = gap_prompts({Z0: from_table(table)[0]}, CHOICES, {3: "p"}).iloc[0]
    assert (row["n_seeds"], row["reason"]) == (2, "")
    assert row["gap"] == pytest.approx(0.2) and row["similarity_second"] == pytest.approx(0.55)
    nothing = gap_prompts({Z0: from_table(small([(0.5, np.nan)]))[0]}, CHOICES, {3: "p"}).iloc[0]
    assert np.isnan(nothing["gap"]) and (nothing["n_seeds"], nothing["reason"]) == (0, NO_PAIR)
