"""Calibration, held against renderings, whose frequencies are the planted ones by construction."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from analysis.metrics.registry import METRICS
from analysis.validation.specimens import QUANTITIES, exchanged_parts, frequency_table, main, presence
from probes.toyworld.captions import article, random_caption
from probes.toyworld.draw import render
from probes.toyworld.scene import complete, parse
from probes.toyworld.world import GROUPS, load_world

PROMPTS, SEEDS = 120, 4


def rendered(model):
    """Samples and pictures of a model that draws exactly what was planted."""
    world, rng = load_world(model), np.random.default_rng(11)
    rows, images = [], []
    for triplet in range(PROMPTS):
        caption, _ = random_caption(world, rng)
        rest = " ".join(caption.removeprefix("a photo of ").split()[2:])
        for group in GROUPS:
            word = world.words(group)[0]
            prompt = f"{article(word)} {word} {rest}".strip()
            for seed in range(SEEDS):
                images.append(render(complete(parse(prompt, world), world, rng)))
                rows.append({"triplet": triplet, "seed": seed, "indicator": group, "prompt": prompt})
    return pd.DataFrame(rows), np.stack(images)


@pytest.mark.parametrize("model", ["toyworld", "toyworld-null"])
def test_planted_frequencies_are_recovered_and_only_planted_differences_are_found(model):
    table = presence(*rendered(model), model)
    assert table.loc[table["named"], "seen"].mean() > 0.999
    frequencies = frequency_table(table)
    for group in GROUPS:
        error = (frequencies[f"{group} planted"] - frequencies[f"{group} seen"]).abs()
        assert error.max() < 0.12 and error.mean() < 0.03
    different = set(frequencies.index[frequencies["p adjusted"] < 0.05])
    if model == "toyworld-null":
        assert not different
    else:
        assert {"dress", "tie", "jeans", "skirt", "flower", "ball", "hat"} <= different


def interchangeable_pairs(names, prompts=30, seed=0):
    """Similarities of words of one meaning: vectors with a part of the word's own, the same at every prompt."""
    rng, tables = np.random.default_rng(seed), []
    for place in (place for place in QUANTITIES if METRICS[place[2]].version):
        word = 0.4 * rng.standard_normal((len(names), 1, 16))
        vectors = word + rng.standard_normal((prompts, 16)) + 0.1 * rng.standard_normal((1, prompts, 16))
        vectors = vectors + 0.2 * rng.standard_normal(vectors.shape)
        vectors /= np.linalg.norm(vectors, axis=2, keepdims=True)
        for i, j in combinations(range(len(names)), 2):
            value = (vectors[i] * vectors[j]).sum(axis=1) * (-1 if place[2] == "diff_pix" else 1)
            keys = dict(zip(("space", "site", "metric"), place)) | {
                "pair": f"{names[i]}-{names[j]}",
                "step": -1,
            }
            tables.append(pd.DataFrame({"triplet": np.arange(prompts), "seed": 0, "value": value, **keys}))
    return pd.concat(tables, ignore_index=True)


def test_words_that_change_parts_are_found_against_0_and_not_against_words():
    table = exchanged_parts(interchangeable_pairs(list("abcdefghi")), list("abcdefghi"), permutations=500)
    assert (table["gaps"] == 252).all() and (table["sides"] == 840).all() and len(table) == 5
    assert (table["against_0"] > 0.5).all()
    assert table["against_words"].max() < 0.12 and 0.01 < table["against_words"].mean() < 0.065


def test_a_folder_that_is_no_run_is_one_clear_line(tmp_path, capsys):
    assert main([str(tmp_path), "--out", str(tmp_path / "page.md")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and str(tmp_path) in error
    assert not (tmp_path / "page.md").exists()
