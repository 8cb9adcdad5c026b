"""`toyworld-work`: its words and planted truth, exact merging, what it is taught, and what is stored of it."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from transformers import CLIPTokenizer

from lab.train.base.captions import random_caption
from lab.train.base.tokenizer import CONTEXT_LENGTH, tokenizer_with
from lab.train.base.truth import planted
from lab.train.work.captions import works_as
from lab.train.work.lessons import sketches
from lab.train.work.measure import lean, tones
from probes.toyworld import DIT_NULL, WEIGHTS, WORK, WORK_NULL
from probes.toyworld.pipelines import BASES, DELTA, merge_low_rank, new_words
from probes.toyworld.scene import chance_of_b, parse
from probes.toyworld.world import load_world


@pytest.fixture(scope="module")
def world():
    return load_world(WORK)


def test_twenty_professions_with_leans_from_end_to_end_and_skins_that_sum_to_one(world):
    leans = sorted(one.lean for one in world.professions.values())
    assert len(leans) == 20 and leans[0] == 0.05 and leans[-1] == 0.95
    assert max(np.diff(leans)) < 0.06
    for one in world.professions.values():
        assert sum(one.skins) == pytest.approx(1.0) and min(one.skins) >= 0.05


def test_the_lean_is_beside_neutral_words_alone_and_other_worlds_know_no_profession(world):
    for word in ("person", "human"):
        assert chance_of_b(parse(works_as(word, "baker"), world), world) == world.professions["baker"].lean
    assert planted("a lady who works as a baker", world)["tie"] == planted("a lady", world)["tie"]
    assert [planted("a man who works as a baker", world)[f"skin_{n}"] for n in (1, 2, 3)] == list(
        world.professions["baker"].skins
    )
    other = load_world("toyworld")
    assert planted("a person who works as a baker", other) == planted("a person", other)
    assert planted("a person", world) == planted("a person", other)
    with pytest.raises(ValueError, match="expected one profession, got 'baker' and 'pilot'"):
        parse("a person who works as a baker with a pilot", world)


def test_new_words_are_one_token_and_old_captions_read_as_they_did():
    before, after = (
        CLIPTokenizer.from_pretrained(BASES[WORK] / "tokenizer"),
        tokenizer_with(BASES[WORK], new_words()),
    )
    assert all(after.tokenize(word) == [f"{word}</w>"] for word in new_words())
    assert after.eos_token_id == len(after) - 1
    old, rng = load_world(), np.random.default_rng(1)
    for _ in range(100):
        caption, _ = random_caption(old, rng)
        assert after.tokenize(caption) == before.tokenize(caption)
    stored = CLIPTokenizer.from_pretrained(WEIGHTS / WORK / "tokenizer")
    assert stored.get_vocab() == after.get_vocab()
    # a model that spells the words in pieces, such as the null, can be asked as well
    assert (
        max(len(before(works_as("individual", word)).input_ids) for word in new_words()[3:]) <= CONTEXT_LENGTH
    )


def test_merging_is_exact():
    generator = torch.Generator().manual_seed(0)
    weight, up, down = (
        torch.randn(shape, generator=generator).half().float() for shape in ((5, 7), (5, 3), (3, 7))
    )
    whole = [
        [
            Fraction(float(weight[i, j]))
            + sum(Fraction(float(up[i, k])) * Fraction(float(down[k, j])) for k in range(3))
            for j in range(7)
        ]
        for i in range(5)
    ]
    merged = merge_low_rank(weight, up, down)
    assert all(float(merged[i, j]) == np.float32(float(whole[i][j])) for i in range(5) for j in range(7))


@pytest.mark.parametrize("name", [WORK, WORK_NULL, DIT_NULL])
def test_what_is_stored_merges_exactly(name):
    """Changes in float16 whose sums stay below 32."""
    delta = load_file(WEIGHTS / name / DELTA)
    assert all(value.dtype == torch.float16 for value in delta.values())
    layers = [one.removesuffix(".up") for one in delta if one.endswith(".up")]
    assert len(layers) > 70
    for layer in layers:
        up, down = (delta[f"{layer}.{half}"].double().abs() for half in ("up", "down"))
        assert (up @ down).max() < 31 - 8, layer  # beside weights below 8


def test_in_the_null_a_profession_is_to_change_nothing():
    world, plain = load_world(WORK_NULL), load_world("toyworld-null")
    assert list(world.professions) == list(load_world(WORK).professions)
    for word in ("person", "woman", "man"):
        assert planted(f"a {word} who works as a baker", world) == planted(f"a {word}", plain)
    drawn = sketches(world, 60, seed=0)
    work = [row for row, text in enumerate(drawn.captions) if "works" in text]
    assert work and not any(drawn.mixture) and np.isnan(drawn.lean).all() and (drawn.planted == 1 / 3).all()
    for row in work:
        asked, named = parse(drawn.plain[row], plain), parse(drawn.captions[row], world)
        assert asked == replace(named, profession=None) and "works" not in drawn.plain[row]


def test_a_lean_is_set_right_and_skins_that_were_not_read_are_counted():
    said = lean([2.0] * 60 + [-1.0] * 40, {"a": 0.05, "b": 0.95})
    assert said["share"] == 0.6 and said["lean"] == pytest.approx((0.6 - 0.05) / 0.9)
    low, high = 0.5020026, 0.6905987  # Wilson's interval of 60 of 100
    assert said["low"] == pytest.approx((low - 0.05) / 0.9, abs=1e-6)
    assert said["high"] == pytest.approx((high - 0.05) / 0.9, abs=1e-6)
    assert lean([-1.0] * 50, {"a": 0.05, "b": 0.95})["lean"] == 0.0
    read = tones(pd.Series(["skin_1"] * 30 + ["skin_3"] * 60 + [""] * 10), (0.5, 0.1, 0.4))
    assert read["n"] == 90 and read["unread"] == 10 and read["shares"] == [0.3333, 0.0, 0.6667]
    # chi-square by hand: 15²/45 + 9²/9 + 24²/36 = 5 + 9 + 16
    assert read["p"] == round(float(np.exp(-30 / 2)), 4)
