"""The paper's tables as LaTeX: as many cells as heads, and numbers worked by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.metrics.cooccurrence import (
    INCLUDED,
    LEFT_OUT,
    amounts,
    counted,
    presence,
)
from analysis.tables.objects.wu import OBJECT_SITES, chi_square, figure_scores, similarity_pairs
from probes.config.schema import Config
from tests.analysis.object_frames import CONFIG, NAMES
from tests.analysis.printed import printed_tables


def test_latex_has_as_many_cells_as_heads(small):
    images, objects, chosen = small
    tables, without = (
        counted(images, objects, chosen.names, without=own) for own in ((), chosen.individuals)
    )
    nouns = pd.DataFrame({"triplet": 0, "indicator": NAMES, "lemma": "hat"})
    table12, table13 = amounts(images, objects, nouns, chosen.names)
    table07 = chi_square(without, chosen.sets, LEFT_OUT)
    scores = figure_scores(tables, chosen.leaning, individuals=chosen.individuals, least=1)
    config = Config.stored(CONFIG | {"name": "first & last"})
    made = printed_tables(
        config,
        "toy_world",
        table07_chi_square=table07,
        table11_presence=presence(images, objects, chosen.names).assign(individuals=INCLUDED),
        table12_amounts=table12,
        table13_intersection=table13,
        figure04_bias_scores=scores,
    )
    first, second = (f"figure04_bias_scores_masculine_feminine{which}" for which in ("", "_no_persons"))
    for text in made.values():
        body = text[text.index("\\toprule") : text.index("\\bottomrule")]
        lines = [line for line in body.splitlines() if line.endswith("\\\\")]
        assert len({line.count(" & ") for line in lines}) == 1 and len(lines) > 1
        assert "toy\\_world" in text and text.count("{") == text.count("}")
    assert "first \\& last" in made[first] and "first \\& last" in made["table12_amounts"]
    assert "Triplet & " in made["table07_chi_square"] and "--" in made["table07_chi_square"]
    for name in (first, second):
        assert "tie & 1.00 & 0 & 3" in made[name] and "scarf & 0.00 & 1 & 0" in made[name]
    assert "man & 1.00 & 0 & 1" in made[first] and "left out" not in made[first]
    assert "man & 1.00 & 0 & 1" not in made[second] and "Individuals left out" in made[second]


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
    pairs = ("neutral-masculine", "neutral-feminine")
    rows = [("image", OBJECT_SITES[which], pair, means[which]) for which in means for pair in pairs]
    table = pd.DataFrame(rows, columns=["space", "site", "pair", "mean"])
    table = table.assign(metric="cooccurrence", step=-1)
    config = Config.stored(CONFIG | {"name": "data"})
    tests = pd.DataFrame(columns=["group", "individuals", "comparison"])
    text = printed_tables(config, disparity=table, table07_chi_square=tests)["table06_similarity"]
    assert f"(neutral, masculine) & {7 / np.sqrt(66):.3f} & {7 / np.sqrt(60):.3f} \\\\" in text
    assert " & data & data, individuals left out" in text


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
    config = Config.stored(CONFIG | {"indicators": indicators})
    text = printed_tables(config, disparity=disparity)["table05_disparity"]
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
