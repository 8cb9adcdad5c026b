"""The paper's tables against counts by hand, SciPy and plain loops."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2_contingency

from analysis.metrics.cooccurrence import (
    ALL,
    INCLUDED,
    counted,
    presence,
)
from analysis.metrics.dependency import GROUPS
from analysis.tables.objects.wu import chi_square, figure_objects, figure_scores, similarity_pairs
from analysis.tables.similarities.gap import GapChoices, disparity
from analysis.tables.similarities.similarities import from_table
from tests.analysis.object_frames import CONFIG, EG, EI, HIDDEN, IG, II, NAMES, compared, frame


def random_frame(rng, prompts=6, seeds=2, names=NAMES, rate=0.5):
    kinds = ["hat", "tie", "tree", "dog", "man", "cup"]
    rows = [
        (
            triplet,
            seed,
            name,
            {group: " ".join(kind for kind in kinds for _ in range(rng.poisson(rate))) for group in GROUPS},
        )
        for triplet in range(prompts)
        for seed in range(seeds)
        for name in names
    ]
    return frame(rows)


def test_similarity_by_hand(small):
    images, objects, chosen = small
    pairs = similarity_pairs(images, objects, chosen.names)
    values = pairs.set_index(["pair", "triplet"])["value"]
    # vectors (hat, tie, tree, scarf, man): (1,2,1,0,0), (1,0,0,1,0), (1,3,0,0,1)
    assert values["neutral-feminine", 0] == pytest.approx(1 / np.sqrt(6 * 2))
    assert values["neutral-masculine", 0] == pytest.approx(7 / np.sqrt(6 * 11))
    assert values["neutral-feminine", 1] == 0  # park alone and tree alone
    assert np.isnan(values["neutral-masculine", 1])  # nothing detected in one of them
    (family,) = from_table(pairs)
    means = disparity(family, GapChoices(indicators=NAMES, reference="neutral", contrasts=())).set_index(
        "pair"
    )
    assert means["mean"]["neutral-feminine"] == pytest.approx(0.5 / np.sqrt(12))
    assert means["n_prompts"]["neutral-masculine"] == 1


def test_similarity_against_dense_vectors():
    images, objects = random_frame(np.random.default_rng(0))
    pairs = similarity_pairs(images, objects, NAMES)
    found = objects[objects["object"] >= 0]
    dense = pd.crosstab(found["sample_id"], found["lemma"]).reindex(images["sample_id"], fill_value=0)
    for row in pairs.itertuples():
        first, second = row.pair.split("-")
        a, b = (dense.loc[f"{row.triplet}/{row.seed}/{name}"].to_numpy() for name in (first, second))
        assert row.value == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), abs=1e-6)
    assert len(pairs) == 6 * 2 * 3


def test_chi_square_against_scipy():
    images, objects = random_frame(np.random.default_rng(1))
    chosen = compared()
    table = chi_square(counted(images, objects, NAMES), chosen.sets, INCLUDED)
    assert len(table) == 6 * 4
    for row in table.itertuples():
        own = objects[objects["object"] >= 0] if row.group == ALL else objects[objects["group"] == row.group]
        counts = pd.crosstab(own["lemma"], own["indicator"])[row.comparison.split("-")]
        wanted = chi2_contingency(counts.to_numpy(), correction=False)
        assert (row.statistic, row.p_value) == pytest.approx((wanted.statistic, wanted.pvalue))
        assert row.dof == wanted.dof and row.n_objects == len(counts) and row.n_images == 12


def test_bias_scores_and_their_filter():
    rows = [
        (triplet, 0, name, {IG: "hat " * (name == "feminine") + "tie " * (3 if name == "masculine" else 1)})
        for triplet in range(4)
        for name in NAMES
    ]
    images, objects = frame([*rows[:-1], (3, 0, "masculine", {IG: "tie tie tie", II: "cup"})])
    tables = counted(images, objects, NAMES)
    scores = figure_scores(tables, compared().leaning, least=4)
    own = scores[(scores["group"] == ALL) & (scores["first"] == "feminine")].set_index("object")
    assert own["bias_score"].to_dict() == {"hat": 0, "tie": 12 / (12 + 4), "cup": 1}
    assert own["kept"].to_dict() == {"hat": True, "tie": True, "cup": False}
    assert own["top"].to_dict() == {"hat": "feminine", "tie": "masculine", "cup": ""}
    assert set(scores.loc[scores["object"] == "cup", "group"]) == {ALL, II}
    assert not (scores.loc[scores["bias_score"].isna(), "reason"] == "").any()


def test_ten_towards_each_side():
    kinds = [f"kind{number:02d}" for number in range(30)]
    rows = []
    for name in NAMES:
        shift = {"neutral": 0, "feminine": 1, "masculine": -1}[name]
        found = [kind for i, kind in enumerate(kinds) for _ in range(40 + shift * i)]
        rows += [(triplet, 0, name, {IG: " ".join(found)}) for triplet in range(2)]
    images, objects = frame(rows)
    scores = figure_scores(counted(images, objects, NAMES), [("feminine", "masculine")])
    own = scores[(scores["group"] == IG) & (scores["first"] == "feminine")].set_index("object")
    assert (
        set(own.index[own["top"] == "feminine"]) == set(kinds[-10:]) and not (own["top"] == "masculine").any()
    )


def test_most_frequent_objects(small):
    images, objects, chosen = small
    table = figure_objects(counted(images, objects, chosen.names, without=chosen.individuals))
    first = table[table["rank"] == 1].set_index("group")
    assert first["object"].to_dict() == {EG: "hat", IG: "tie", EI: "park", II: "tree", HIDDEN: "park"}
    assert first.loc[IG, ["count", "count_neutral", "count_feminine", "count_masculine"]].tolist() == [
        5,
        2,
        0,
        3,
    ]


def test_controls_enter_no_table_of_the_paper(small):
    """With twice as many images of controls, full of other things, every table is that of the three prompt sets."""
    images, objects, chosen = small
    rows = [
        (t, 0, name, {EG: "wall wall", IG: "tie", HIDDEN: "lady"})
        for t in (0, 1)
        for name in ("individual", "lady")
    ]
    more_images, more_objects = frame(rows)
    everything = pd.concat([images, more_images]), pd.concat([objects, more_objects])
    indicators = CONFIG["indicators"] | {
        "individual": {"word": "individual", "control": True},
        "lady": {"word": "lady", "control": "feminine"},
    }
    controlled = compared(indicators=indicators)
    assert controlled.main == NAMES and controlled.pairs == chosen.pairs and controlled.sets == chosen.sets
    assert controlled.leaning == chosen.leaning
    assert controlled.beside == (("neutral", "individual"), ("neutral", "lady"))
    pd.testing.assert_frame_equal(
        presence(*everything, controlled.main, chosen.individuals),
        presence(images, objects, NAMES, chosen.individuals),
    )
    tables, wanted = (counted(*given, NAMES) for given in (everything, small[:2]))
    pd.testing.assert_frame_equal(figure_objects(tables), figure_objects(wanted))
    assert not {"wall", "lady"} & {
        name for table in tables.values() for name in table.objects[table.totals().any(axis=1)]
    }
