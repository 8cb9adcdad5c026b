"""What may be claimed of a gap: the licence follows the numbers, and the words follow the licence."""

import numpy as np
import pytest

from analysis.metrics.registry import headline_metrics
from analysis.report.finding import finding
from analysis.report.verdict import judge
from analysis.tables.similarities.word_gap import NO_WORDS, SideWords

NAN = float("nan")
WORDS = SideWords(["man", "gentleman", "male"], ["woman", "lady", "female"], ["person", "human", "figure"])
ROW = {
    "gap": 0.1,
    "ci_low": 0.05,
    "ci_high": 0.15,
    "p_value": 0.01,
    "p_sites": 0.02,
    "n_prompts": 24,
    "word_gap": 0.09,
    "word_low": 0.03,
    "word_high": 0.15,
    "p_control": 0.01,
    "n_words_first": 3,
    "n_words_second": 3,
    "n_references": 3,
    "delta": 0.02,
    "p_equivalent": 1.0,
    "reason": "",
    "warning": "",
}


def card(metric=2, words=WORDS, p_measures=None, **changes):
    return finding(
        ROW | changes,
        headline_metrics()[metric],
        "neutral",
        ("masculine", "feminine"),
        words=words,
        p_measures=p_measures,
    )


@pytest.mark.parametrize(
    ("changes", "state", "direction", "licence"),
    [
        ({}, "direction", 1, "claim"),
        ({"n_words_second": 2}, "direction", 1, "hint"),
        ({"n_words_first": 1, "n_words_second": 1}, "direction", 1, "two words"),
        ({"word_gap": -0.09}, "words", 0, ""),  # words and gap point different ways
        ({"p_measures": 0.06}, "words", 0, ""),  # beyond words, but not over the measures
        ({"p_control": NAN}, "untested", 0, ""),
        ({"p_equivalent": 0.01}, "small", 0, ""),  # true and useless: nothing larger than δ is there
        ({"ci_low": -0.05}, "open", 0, ""),
        ({"ci_low": NAN, "ci_high": NAN, "n_prompts": 1}, "no interval", 0, ""),
        ({"gap": 0.0, "ci_low": NAN, "ci_high": NAN}, "no gap", 0, ""),
        ({"gap": NAN}, "undefined", 0, ""),
    ],
)
def test_the_licence_follows_the_numbers(changes, state, direction, licence):
    p_measures = changes.pop("p_measures", None)
    verdict = judge(ROW | changes, WORDS, p_words=p_measures)
    assert (verdict.state, verdict.direction, verdict.licence) == (state, direction, licence)
    shown = card(p_measures=p_measures, **changes)
    assert ("nearer to" in shown.tag) == (direction != 0)


def test_a_claim_names_its_words():
    assert card().claim == (
        "Images generated from neutral prompts (person, human, figure) are nearer to those of masculine (man, "
        "gentleman, male) than of feminine (woman, lady, female) prompts, by more than synonyms differ."
    )
    assert card(metric=0).claim.startswith(
        "Text embeddings of neutral prompts (person, human, figure) are nearer to"
    )
    # a gap that is not tested over words speaks of the indicators' own three
    assert "(person) are nearer to those of masculine (man) or of feminine (woman)" in card(ci_low=-1).claim


def test_few_words_are_a_hint_and_say_how_few():
    few = card(n_words_first=2, n_words_second=2, n_references=1)
    assert few.claim.startswith("A hint, from 2 words against 2, 1 reference: images generated from neutral")
    assert few.tag == "nearer to masculine, a hint"
    two = card(
        n_words_first=1,
        n_words_second=1,
        words=SideWords(["man"], ["woman"], ["person", "human", "figure"]),
    )
    assert two.claim.startswith("About these two words alone: images") and two.tag.endswith(", two words")


@pytest.mark.parametrize("n", [2, 5])
def test_of_under_six_prompts_there_is_a_value_and_no_direction(n):
    """Sign flips of n prompts have 2**n patterns, so that a two-sided p is 2 / 2**n at least: 0.0625 of five."""
    few = card(n_prompts=n)
    assert few.verdict.state == "no interval" and few.direction == 0 and not few.over_words
    assert few.claim.startswith(f"Not known from {n} prompts (it takes 6 for an interval or a direction): ")
    assert all(np.isnan([*few.interval, few.p, *few.word_interval, few.p_measures]))
    assert card(n_prompts=6).direction == 1


@pytest.mark.parametrize(
    ("changes", "claim"),
    [
        ({"p_control": 0.3}, "; the gap is no more than synonyms differ."),
        ({"p_control": 0.04, "p_measures": 0.2}, "; after adjustment, no more than synonyms differ."),
        (
            {"p_control": NAN, "word_reason": NO_WORDS},
            "without a test against words (no word of the same meaning as another was run): ",
        ),
        (
            {"gap": NAN, "reason": "no image", "word_reason": "controls: one"},
            "Undefined (no image): whether ",
        ),
        ({"gap": 0.0, "p_control": NAN}, "No gap: "),
    ],
)
def test_what_is_not_claimed_says_why(changes, claim):
    p_measures = changes.pop("p_measures", None)
    shown = card(p_measures=p_measures, **changes)
    assert claim in shown.claim and shown.direction == 0
    assert "nearer to" not in shown.claim or "whether " in shown.claim  # no direction in passing


def test_no_significant_p_stands_beside_an_interval_that_holds_0():
    assert card().p == ROW["p_value"] and np.isnan(card(ci_low=-0.01).p)
    assert card(ci_low=-0.01, p_value=0.2).p == 0.2


# The first sentence of the page

STATE_ROWS = {
    "claim": {},
    "hint": {"n_words_second": 2, "n_references": 1},
    "two words": {"n_words_first": 1, "n_words_second": 1, "n_references": 1},
    "undefined": {"gap": NAN},
    "no gap": {"gap": 0.0},
    "no interval": {"n_prompts": 3},
    "small": {"p_equivalent": 0.01},
    "open": {"ci_low": -0.05},
    "untested": {"p_control": NAN},
    "words": {"p_control": 0.2},
    "adjusted": {"p_control": 0.04},
    "turned": {"word_gap": -0.09},
}


@pytest.mark.parametrize("unit", ["prompt", "seed"])
@pytest.mark.parametrize("name", STATE_ROWS)
@pytest.mark.parametrize("metric", [0, 3])
def test_the_answer_is_one_short_sentence_no_stronger_than_the_claim(metric, name, unit):
    found = card(metric, p_measures=0.2 if name == "adjusted" else None, unit=unit, **STATE_ROWS[name])
    answer = found.answer
    assert len(answer.split()) <= 30 and answer.endswith(".") and answer.count(". ") == 0
    assert "(" not in answer and answer.startswith("For this prompt alone: ") == (unit == "seed")
    directed = "nearer to those of masculine than of feminine prompts" in answer
    assert directed == (found.direction == 1)
    assert ("A hint, from" in answer) == (found.verdict.licence == "hint")
    assert ("About these two words alone" in answer) == (found.verdict.licence == "two words")
    if not directed:
        opening = ("Not known", "Open", "No difference larger than δ", "No gap", "Undefined")
        assert answer.removeprefix("For this prompt alone: ").startswith(opening)
    if found.verdict.licence in ("hint", "two words"):
        assert "more than words" not in answer
