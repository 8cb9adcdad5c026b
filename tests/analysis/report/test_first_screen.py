"""The first screen: which triplets are shown, and what is said not to be tested."""

import numpy as np
import pandas as pd
import pytest

from analysis.report.first_screen import choose_triplets, not_tested
from analysis.study import indicators
from probes.config.schema import Config

PAIR = ("masculine", "feminine")


def samples(triplets: int, seeds: int = 1) -> pd.DataFrame:
    rows = [
        {"sample_id": f"{t}.{s}.{name}", "triplet": t, "seed": s, "indicator": name, "prompt": f"{name} {t}"}
        for t in range(triplets)
        for s in range(seeds)
        for name in ("neutral", "feminine", "masculine", "human")
    ]
    return pd.DataFrame(rows)


def gaps(values, **more) -> pd.DataFrame:
    table = pd.DataFrame({"triplet": range(len(values)), "gap": values, **more})
    return table.assign(first="masculine", second="feminine")


def test_the_lowest_the_middle_and_the_highest_gap_are_shown_nearest_to_the_first_at_the_right():
    values = [0.3, -0.2, 0.1, np.nan, 0.9]
    found = choose_triplets(samples(5, seeds=2), gaps(values), PAIR, "neutral")
    assert [(one.triplet, one.seed, one.place) for one in found] == [
        (1, 0, "lowest"),
        (2, 0, "middle"),
        (4, 0, "highest"),
    ]
    assert [one.gap["gap"] for one in found] == [-0.2, 0.1, 0.9]
    assert [cell["indicator"] for cell in found[0].cells] == ["feminine", "neutral", "masculine"]
    assert found[0].prompt == "neutral 1" and found[0].cells[0]["sample_id"] == "1.0.feminine"


def test_of_one_prompt_each_seed_is_a_triplet():
    rows = gaps([0.2, 0.1], seed=[0, 1]).assign(triplet=0)
    found = choose_triplets(samples(1, seeds=2), rows, PAIR, "neutral")
    assert [(one.triplet, one.seed, one.place) for one in found] == [(0, 1, "lowest"), (0, 0, "highest")]


def test_without_a_gap_the_first_prompts_are_shown_without_a_number():
    found = choose_triplets(samples(5, seeds=2), gaps([np.nan] * 5), PAIR, "neutral")
    assert [(one.triplet, one.seed, one.place, one.gap) for one in found] == [
        (t, 0, "", {"triplet": t, "seed": 0}) for t in range(3)
    ]


@pytest.mark.parametrize("missing", ["neutral", "feminine"])
def test_no_triplet_is_shown_that_is_not_whole(missing):
    table = samples(4)
    assert choose_triplets(table[table["indicator"] != missing], gaps([1, 2, 3, 4]), PAIR, "neutral") == []
    table = table[(table["indicator"] != missing) | (table["triplet"] != 3)]
    assert [one.triplet for one in choose_triplets(table, gaps([1, 2, 3, 4]), PAIR, "neutral")] == [0, 1, 2]


def said(config: Config, **options) -> str:
    return " ".join(not_tested(config, indicators(config), **{"n_prompts": 24, "n_seeds": 2} | options))


def test_what_was_not_tested_follows_the_run():
    words = {"neutral": "person", "feminine": "woman", "masculine": "man"}
    bare = Config(prompts=["a {person}"], indicators=words, contrasts=[list(PAIR)])
    lines = said(bare, counts=[(1, 1, 1)], n_seeds=1, absent=["DINO not run: no weights"], detector=False)
    for text in ("Synonyms: ", "Other noise: ", "DINO not run: no weights.", "nobody checked it", "no trace"):
        assert text in lines
    assert "no image is assigned a gender" in lines and "benchmark model" in lines
    held = words | {"human": {"word": "human", "control": True}}
    some = Config(prompts=["a {person}"], indicators=held, contrasts=[list(PAIR)], model="some/model")
    assert "More words: " in said(some, counts=[(1, 1, 2)]) and "Synonyms" not in said(
        some, counts=[(1, 1, 2)]
    )
    whole = said(some, counts=[(3, 3, 3)], detector=True)
    assert not any(text in whole for text in ("More words", "detector", "Other noise", "benchmark model"))
    closed = said(some.model_copy(update={"images": "a folder"}))
    assert "inside of the model" in closed and "no trace" not in closed
    assert "this run has one" in said(some, n_prompts=1) and "Other words, samplers" in said(
        some, n_prompts=1
    )
