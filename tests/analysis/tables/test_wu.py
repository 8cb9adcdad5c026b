"""The paper's tables against counts by hand, SciPy and plain loops."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2_contingency

from analysis.metrics.cooccurrence import (
    ALL,
    EMPTY_GROUP,
    INCLUDED,
    LEFT_OUT,
    NO_IMAGES,
    NOT_GROUPED,
    amounts,
    cooccurrence,
    counted,
    presence,
)
from analysis.metrics.dependency import GROUPS
from analysis.metrics.registry import headline_metrics
from analysis.report.latex import (
    amounts_table,
    chi_square_table,
    disparity_table,
    intersection_table,
    presence_table,
    score_table,
    similarity_table,
)
from analysis.study import comparison
from analysis.tables.disparity import disparity
from analysis.tables.wu import NO_OBJECT, chi_square, figure_objects, figure_scores, similarity_pairs
from probes.config import Config

NAMES = ("neutral", "feminine", "masculine")
CONFIG = {
    "indicators": {"neutral": "person", "feminine": {"word": "woman"}, "masculine": "man"},
    "reference": "neutral",
    "contrasts": [["masculine", "feminine"]],
}


def compared(**changes):
    return comparison(Config.stored(CONFIG | changes))


def frame(rows):
    """Images and table ``objects`` from (triplet, seed, indicator, {group: "names"}) rows."""
    images, objects = [], []
    for triplet, seed, indicator, groups in rows:
        keys = {
            "sample_id": f"{triplet}/{seed}/{indicator}",
            "triplet": triplet,
            "seed": seed,
            "indicator": indicator,
        }
        images.append(keys)
        number = 0
        for group, names in groups.items():
            for name in names.split():
                hidden = group == "hidden"
                human = name in ("person", "woman", "man")
                objects.append(
                    {
                        **keys,
                        "object": -1 if hidden else number,
                        "lemma": name,
                        "human": human,
                        "group": group,
                    }
                )
                number += not hidden
    columns = ["sample_id", "triplet", "seed", "indicator", "object", "lemma", "human", "group"]
    return pd.DataFrame(images), pd.DataFrame(objects, columns=columns)


# two prompts; "eg" explicitly guided, and so on
EG, IG, EI, II, HIDDEN = GROUPS
SMALL = [
    (0, 0, "neutral", {EG: "hat", IG: "tie tie", II: "tree"}),
    (0, 0, "feminine", {EG: "hat", IG: "scarf", HIDDEN: "park"}),
    (0, 0, "masculine", {EG: "hat man", IG: "tie tie tie", HIDDEN: "park"}),
    (1, 0, "neutral", {EI: "park", HIDDEN: "person"}),
    (1, 0, "feminine", {II: "tree", HIDDEN: "woman park"}),
    (1, 0, "masculine", {}),
]


@pytest.fixture
def small():
    images, objects = frame(SMALL)
    return images, objects, compared()


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


def test_what_is_compared():
    chosen = compared()
    assert chosen.pairs == (("neutral", "feminine"), ("neutral", "masculine"), ("feminine", "masculine"))
    assert chosen.sets == (*chosen.pairs, NAMES)
    assert chosen.leaning == (("feminine", "masculine"), ("neutral", "feminine"), ("neutral", "masculine"))
    assert {"person", "woman", "man", "girl", "boy", "female", "male"} == chosen.individuals


def test_what_is_compared_with_controls_another_reference_and_two_words():
    indicators = {"a": "nurse", "b": "doctors", "c": {"word": "adult", "control": True}}
    chosen = compared(indicators=indicators, reference="b", contrasts=[])
    assert chosen.pairs == (("b", "a"),) == chosen.sets == chosen.leaning
    assert chosen.names == ("a", "b", "c") and chosen.main == ("a", "b") and chosen.beside == (("b", "c"),)
    assert {"nurse", "doctor", "adult", "woman"} <= chosen.individuals
    assert list(chosen.controls) == ["c"]


def test_cooccurrence_by_hand(small):
    images, objects, chosen = small
    table = cooccurrence(counted(images, objects, chosen.names), ["man"])
    cells = table.set_index(["group", "object", "indicator"])[["detections", "images"]].apply(tuple, axis=1)
    assert cells[ALL, "tie", "neutral"] == (2, 1) and cells[ALL, "tie", "masculine"] == (3, 1)
    assert cells[ALL, "tie", "feminine"] == (0, 0) and cells[ALL, "park", "neutral"] == (1, 1)
    assert cells[IG, "tie", "masculine"] == (3, 1) and cells[HIDDEN, "park", "feminine"] == (2, 2)
    assert (ALL, "woman", "feminine") not in cells.index  # a hidden noun is no detection
    assert table.loc[table["human"], "object"].unique().tolist() == ["man"]
    assert (table["n_images"] == 2).all()
    by_group = table[table["group"].isin(GROUPS[:4])].groupby(["object", "indicator"])["detections"].sum()
    whole = table[table["group"] == ALL].set_index(["object", "indicator"])["detections"]
    assert (by_group.reindex(whole.index) == whole).all()


def test_individuals_are_left_out(small):
    images, objects, chosen = small
    tables = counted(images, objects, chosen.names, without=chosen.individuals)
    assert tables[ALL].objects.tolist() == ["hat", "park", "scarf", "tie", "tree"]
    assert tables[HIDDEN].objects.tolist() == ["park"]


def test_incomplete_triplets_are_not_counted(small):
    images, objects, chosen = small
    tables = counted(
        images[images["sample_id"] != "0/0/masculine"],
        objects[objects["sample_id"] != "0/0/masculine"],
        chosen.names,
    )
    assert tables[ALL].n_images == 1 and tables[ALL].incomplete == 1
    assert "tie" not in tables[ALL].objects[tables[ALL].totals().any(axis=1)]


def test_similarity_by_hand(small):
    images, objects, chosen = small
    pairs = similarity_pairs(images, objects, chosen.names)
    values = pairs.set_index(["pair", "triplet"])["value"]
    # vectors (hat, tie, tree, scarf, man): (1,2,1,0,0), (1,0,0,1,0), (1,3,0,0,1)
    assert values["neutral-feminine", 0] == pytest.approx(1 / np.sqrt(6 * 2))
    assert values["neutral-masculine", 0] == pytest.approx(7 / np.sqrt(6 * 11))
    assert values["neutral-feminine", 1] == 0  # park alone and tree alone
    assert np.isnan(values["neutral-masculine", 1])  # nothing detected in one of them
    assert pairs.set_index(["pair", "triplet"])["reason"]["neutral-masculine", 1] == NO_OBJECT
    means = disparity(pairs.assign(value=pairs["value"].astype(float)), resamples=50).set_index("pair")
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


def test_chi_square_that_cannot_be():
    images, objects = frame([(0, 0, name, {EG: "hat"}) for name in NAMES])
    table = chi_square(counted(images, objects, NAMES), compared().sets, LEFT_OUT)
    assert table["p_value"].isna().all() and (table["reason"] != "").all()


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
    scores = figure_scores(
        counted(images, objects, NAMES), [("feminine", "masculine"), ("masculine", "feminine")]
    )
    own = scores[(scores["group"] == IG) & (scores["first"] == "feminine")].set_index("object")
    assert (
        set(own.index[own["top"] == "feminine"]) == set(kinds[-10:]) and not (own["top"] == "masculine").any()
    )
    back = scores[(scores["group"] == IG) & (scores["first"] == "masculine")].set_index("object")
    assert (own["bias_score"] + back["bias_score"]).to_numpy() == pytest.approx(1)
    assert own["top"].tolist() == back["top"].tolist()


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


def test_presence_by_hand(small):
    images, objects, chosen = small
    both = presence(images, objects, chosen.names, chosen.individuals)
    table = both[both["individuals"] == INCLUDED].set_index(["group", "indicator"])
    assert table["percent_of_images"][EG, ALL] == 50 and table["percent_of_images"][HIDDEN, "feminine"] == 100
    assert table["images"][II, ALL] == 2 and table["n_images"][II, ALL] == 6
    assert table["percent_of_images"][EI, "masculine"] == 0
    assert table["images"][HIDDEN, "neutral"] == 1
    without = both[both["individuals"] == LEFT_OUT].set_index(["group", "indicator"])
    assert without["images"][HIDDEN, "neutral"] == 0 and without["images"][HIDDEN, "feminine"] == 2


def test_presence_without_word_maps(small):
    images, objects, chosen = small
    table = presence(images, objects.assign(group=""), chosen.names)
    assert table["percent_of_images"].iloc[0] == 0  # of the image without any object
    objects.loc[objects["sample_id"] == "0/0/neutral", "group"] = ""
    table = presence(images, objects, chosen.names).query("individuals == 'included'")
    table = table.set_index(["group", "indicator"])
    assert table["n_images"][EG, ALL] == 5 and table["images"][EG, ALL] == 2
    all_unknown = objects.assign(group="")
    known = images[images["sample_id"].isin(objects["sample_id"])]
    assert presence(known, all_unknown, chosen.names)["reason"].eq(NOT_GROUPED).all()
    assert presence(images[:0], objects[:0], chosen.names)["reason"].eq(NO_IMAGES).all()


def test_amounts_and_intersections_by_hand(small):
    images, objects, chosen = small
    spoken = [(0, "hat"), (0, "park"), (1, "park")]
    nouns = pd.DataFrame(
        [(t, name, noun) for t, noun in spoken for name in NAMES], columns=["triplet", "indicator", "lemma"]
    )
    table, shared = amounts(images, objects, nouns, chosen.names)
    whole = table[table["indicator"] == ALL].set_index("group")["amount"].to_dict()
    assert whole == {EG: 2, IG: 2, EI: 1, II: 1, HIDDEN: 3, "nouns": 2}
    assert table.set_index(["group", "indicator"])["amount"][IG, "feminine"] == 1
    cells = shared.set_index(["over_group", "group"])
    assert cells["percent"][HIDDEN, EI] == pytest.approx(100 / 3) and cells["percent"][EI, HIDDEN] == 100
    assert len(shared) == 36
    for over, group in combinations((*GROUPS, "nouns"), 2):
        assert cells["common"][over, group] == cells["common"][group, over]
    _, empty = amounts(images, objects[objects["group"] != EI], nouns, chosen.names)
    over = empty[empty["over_group"] == EI]
    assert over["percent"].isna().all() and (over["reason"] == EMPTY_GROUP).all()


def test_latex_has_as_many_cells_as_heads(small):
    images, objects, chosen = small
    where = ("toy_world", "first & last")
    tables, without = (
        counted(images, objects, chosen.names, without=own) for own in ((), chosen.individuals)
    )
    nouns = pd.DataFrame({"triplet": 0, "indicator": NAMES, "lemma": "hat"})
    table12, table13 = amounts(images, objects, nouns, chosen.names)
    table07 = chi_square(without, chosen.sets, LEFT_OUT)
    scores = figure_scores(tables, chosen.leaning, individuals=chosen.individuals, least=1)
    score = (scores, ("masculine", "feminine"), ALL)
    made = {
        7: chi_square_table(table07, chosen, *where),
        6: presence_table(presence(images, objects, chosen.names), *where),
        "amounts": amounts_table(table12, *where),
        "intersection": intersection_table(table13, *where),
        "scores": score_table(*score, INCLUDED, "figure04", *where),
        "others": score_table(*score, LEFT_OUT, "figure04", *where),
    }
    for text in made.values():
        body = text[text.index("\\toprule") : text.index("\\bottomrule")]
        lines = [line for line in body.splitlines() if line.endswith("\\\\")]
        assert len({line.count(" & ") for line in lines}) == 1 and len(lines) > 1
        assert "toy\\_world" in text and "first \\& last" in text
        assert text.count("{") == text.count("}")
    assert "Triplet & " in made[7] and "--" in made[7]
    for name in ("scores", "others"):
        assert "tie & 1.00 & 0 & 3" in made[name] and "scarf & 0.00 & 1 & 0" in made[name]
    assert "man & 1.00 & 0 & 1" in made["scores"] and "left out" not in made["scores"]
    assert "man & 1.00 & 0 & 1" not in made["others"] and "Individuals left out" in made["others"]


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
    nouns = pd.DataFrame(
        [
            (t, name, noun)
            for t in (0, 1)
            for name, noun in zip((*NAMES, "lady"), ("hat", "park", "hat", "lady"))
        ],
        columns=["triplet", "indicator", "lemma"],
    )
    pd.testing.assert_frame_equal(
        presence(*everything, controlled.main, chosen.individuals),
        presence(images, objects, NAMES, chosen.individuals),
    )
    with_controls = amounts(*everything, nouns, controlled.main)
    for table, wanted in zip(
        with_controls, amounts(images, objects, nouns[nouns["indicator"] != "lady"], NAMES)
    ):
        pd.testing.assert_frame_equal(table, wanted)
    tables, wanted = (counted(*given, NAMES) for given in (everything, small[:2]))
    pd.testing.assert_frame_equal(figure_objects(tables), figure_objects(wanted))
    assert not {"wall", "lady"} & {
        name for table in tables.values() for name in table.objects[table.totals().any(axis=1)]
    }


def test_table_6_has_persons_in_first(small):
    images, objects, chosen = small
    rest = objects[~objects["lemma"].isin(chosen.individuals)]
    means = {}
    for which, own in ((INCLUDED, objects), (LEFT_OUT, rest)):
        pairs = similarity_pairs(images, own, chosen.names)
        means[which] = pairs[pairs["pair"] == "neutral-masculine"]["value"].mean()
    assert means[INCLUDED] == pytest.approx(7 / np.sqrt(66)) and means[LEFT_OUT] == pytest.approx(
        7 / np.sqrt(60)
    )
    rows = [(which, "neutral", name, means[which]) for which in means for name in ("masculine", "feminine")]
    table = pd.DataFrame(rows, columns=["individuals", "first", "second", "value"])
    text = similarity_table(table, chosen, "toy", "data")
    assert f"(neutral, masculine) & {7 / np.sqrt(66):.3f} & {7 / np.sqrt(60):.3f} \\\\" in text
    assert " & data & data, individuals left out" in text


def test_bias_scores_name_the_individuals_and_rank_with_and_without_them(small):
    images, objects, chosen = small
    tables = counted(images, objects, NAMES)
    scores = figure_scores(tables, chosen.leaning, individuals=chosen.individuals, least=1)
    own = scores[(scores["group"] == ALL) & (scores["first"] == "feminine")].set_index("object")
    assert own.index[own["individual"]].tolist() == ["man"]
    assert (own["top"]["man"], own["top_left_out"]["man"]) == ("masculine", "")
    assert (own["top"]["tie"], own["top_left_out"]["tie"]) == ("masculine", "masculine")
    without = figure_scores(
        counted(images, objects, NAMES, without=chosen.individuals), chosen.leaning, least=1
    )
    alone = without[(without["group"] == ALL) & (without["first"] == "feminine")].set_index("object")
    columns = ["bias_score", "low", "high", "count_first", "count_second"]
    pd.testing.assert_frame_equal(own.loc[alone.index, columns], alone[columns])  # a score is of one object


def test_table_5_as_latex():
    """A row a pair with the reference, a column a measure of the paper's; a dash for what was not run."""
    rows = [
        ("prompt", "text.final", "cosine_sequence", "neutral-feminine", 0.98765),
        ("prompt", "text.final", "cosine_sequence", "neutral-masculine", 0.99),
        ("image", "image", "diff_pix", "neutral-feminine", 38.456),
        ("image", "image", "clip", "neutral-feminine", 0.8586),
        ("image", "image", "ssim", "feminine-masculine", 0.5),
        ("image", "image", "ssim", "neutral-individual", 0.9),
    ]
    disparity = pd.DataFrame(rows, columns=["space", "site", "metric", "pair", "mean"]).assign(step=-1)
    indicators = CONFIG["indicators"] | {"individual": {"word": "individual", "control": True}}
    text = disparity_table(disparity, headline_metrics(), compared(indicators=indicators), "toy", "d")
    assert "(neutral, feminine) & 0.9877 & -- & -- & 38.46 & -- & 0.859 & -- & -- \\\\" in text
    assert "(neutral, masculine) & 0.9900 & -- & -- & -- & -- & -- & -- & -- \\\\" in text
    assert text.count("(neutral, ") == 2 and "individual" not in text and "(feminine, masculine)" not in text
    heads = (
        "$\\mathbf{t}$ $\\uparrow$",
        "$\\mathbf{z}_0$ $\\uparrow$",
        "SSIM $\\uparrow$",
        "Diff. Pix. $\\downarrow$ (\\%)",
    )
    assert " & ".join(heads) in text and "ResNet, DINO, Split-Product" in text
