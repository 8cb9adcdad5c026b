"""Which rows make a triplet: by the words around the indicator's, by a column, by seeds; and what is left out."""

import random
from itertools import product

import pandas as pd
import pytest

from probes.errors import UserError
from probes.prompts.prompt import Prompt
from probes.stages.external_images import triplets as module
from probes.stages.external_images.triplets import NO_IMAGE, NO_MEMBER, NO_PARTNER

WORDS = {"neutral": ("person", "people"), "feminine": ("woman", "women"), "adult": ("adult", "adults")}


def row(prompt, indicator, seed=None, triplet=None, at=None, levels=None):
    return [at, prompt, indicator, seed, triplet, levels or {}]


def triplets(rows, *given, **options):
    table = pd.DataFrame(
        rows, columns=["at", "prompt", "indicator", "seed", "triplet", "levels"], dtype=object
    )
    named = table["at"].where(table["at"].notna(), "line " + table.index.astype(str))
    return module.group_triplets(table.drop(columns="at").set_axis(named.tolist()), *given, **options)


def draws(said, *columns):
    """The draws of triplets, as their first images say them."""
    images = said.images.drop_duplicates(["number", "seed"])
    return [*images[["number", *columns]].itertuples(index=False, name=None)]


def made(template, seeds=(0,), triplet=None, words=WORDS):
    texts = {name: template.replace("{}", word) for name, (word, _) in words.items()}
    texts = {
        name: text.replace("A adult", "An adult").replace("a adult", "an adult")
        for name, text in texts.items()
    }
    return [row(text, name, seed, triplet) for seed, (name, text) in product(seeds, texts.items())]


def test_prompts_belong_together_that_differ_in_the_word_and_its_article():
    rows = made("A {} and a dog", (5, 2)) + made("the {} sings", (2, 5))
    random.Random(0).shuffle(rows)
    said = triplets(rows, WORDS, "neutral")
    assert sorted(prompt.template for prompt in said.prompts) == [
        "A {person} and a dog",
        "the {person} sings",
    ]
    assert draws(said, "seed") == [(0, 2), (0, 5), (1, 2), (1, 5)]
    assert said.images["indicator"].tolist() == list(WORDS) * 4
    assert said.shared and said.paired and not said.left_out and said.seeds == [2, 5]


def test_a_column_joins_prompts_that_differ_in_more_than_a_word():
    rows = [row("a person in the rain", "neutral", 0, "x"), row("one woman under rain", "feminine", 0, "x")]
    rows.append(row("an adult, wet", "adult", 0, "x"))
    assert triplets(rows, WORDS, "neutral").prompts[0].id == "x"
    rows[1] = row("a lady under rain", "feminine", 0, "x", "t.csv: line 3")
    with pytest.raises(UserError, match=r"^t.csv: line 3: expected the word of feminine \(woman, women\)"):
        triplets(rows, WORDS, "neutral")
    assert len(triplets(rows, WORDS, "neutral", any_words=True).images) == 3
    rows[1] = row("a lady under rain", "feminine", 0, None, "t.csv: line 3")
    with pytest.raises(UserError, match="name a column `triplet`"):
        triplets(rows, WORDS, "neutral", any_words=True)


def test_what_is_not_whole_is_left_out_and_counted():
    whole = made("a {} runs", (0, 1))
    rows = [*whole[:-1], *made("a {} sits")[:2]]
    said = triplets(rows, WORDS, "neutral")
    assert draws(said, "seed") == [(0, 0)]
    assert said.left_out == {NO_IMAGE: 1, NO_MEMBER: 1}
    unpaired = triplets([*made("a {} runs", (None, None)), row("a person runs", "neutral")], WORDS, "neutral")
    assert draws(unpaired, "seed", "stated") == [(0, 0, None), (0, 1, None)]
    assert unpaired.left_out == {NO_PARTNER: 1}


def test_seeds_that_say_nothing_across_triplets_are_numbered():
    rows = made("a {} runs", (900, 7)) + made("a {} sits", (13, 55))
    said = triplets(rows, WORDS, "neutral")
    assert draws(said, "seed", "stated") == [
        (0, 0, 7),
        (0, 1, 900),
        (1, 0, 13),
        (1, 1, 55),
    ]
    assert not said.shared
    shared = triplets(rows + made("a {} lies", (7, 13)), WORDS, "neutral")
    assert shared.shared and shared.seeds == [7, 13, 55, 900]
    apart = triplets(rows + made("a {} lies", (7, 13)), WORDS, "neutral", own_noise=True)
    assert apart.seeds == [0, 1]


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        (
            [*made("a {} runs"), row("a robot runs", "robot", 0, at="l7")],
            "^l7: expected an indicator of neutral",
        ),
        (
            [*made("a {} runs"), row("a person runs", "neutral", None, at="l7")],
            "^l7: expected a seed in every row",
        ),
        (
            [*made("a {} runs", triplet="x"), row("the person", "neutral", 1, "x", "l7")],
            "^l7: expected one prompt",
        ),
        (
            made("a {} runs", triplet="x") + made("a {} runs", (1,), "y"),
            "expected prompts that no other triplet has",
        ),
        (made("a {} runs")[:2], "expected a triplet with an image of every indicator"),
        (
            [row("a person runs", "neutral", 0), *made("a {} runs", (1,))[1:]],
            r"expected a triplet .* \(2 seeds of",
        ),
    ],
)
def test_rows_that_do_not_fit_are_told_by_their_place(rows, error):
    with pytest.raises(UserError, match=error):
        triplets(rows, WORDS, "neutral")


# prompts that stand alone


def alone(*rows):
    return triplets(rows, {"plain": ("image", "images")}, "plain", alone=True)


def single(at, prompt, seed=None, indicator="", **levels):
    return row(prompt, indicator, seed, at=f"line {at}", levels=levels)


def test_images_of_one_text_and_the_same_levels_are_of_one_prompt():
    said = alone(
        single(2, "a nurse", model="a"), single(3, "a nurse", model="b"), single(4, "a nurse", model="a")
    )
    assert said.prompts == [Prompt({"plain": "a nurse"}, levels={"model": name}) for name in "ab"]
    assert draws(said, "seed", "at") == [(0, 0, "line 2"), (0, 1, "line 4"), (1, 0, "line 3")]
    assert not said.paired and not said.left_out


def test_seeds_tell_images_of_a_prompt_apart():
    said = alone(single(2, "a nurse", 7), single(3, "a nurse", 3), single(4, "a pilot", 7))
    assert draws(said, "seed") == [(0, 3), (0, 7), (1, 7)]
    assert said.paired and said.shared
    with pytest.raises(
        UserError, match="line 3: expected one image of this prompt and seed 1, got another in line 2"
    ):
        alone(single(2, "a nurse", 1), single(3, "a nurse", 1))
    with pytest.raises(UserError, match="line 2: expected the indicator plain or none, got 'feminine'"):
        alone(single(2, "a nurse", indicator="feminine"))
