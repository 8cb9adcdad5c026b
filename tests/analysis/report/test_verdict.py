"""What may be claimed of a gap: the licence follows the numbers, and the words follow the licence."""

import re

import numpy as np
import pytest
from statsmodels.stats.power import TTestPower

from analysis.metrics.registry import headline_metrics
from analysis.report import wording
from analysis.report.verdict import ContrastWords, judge

NAN = float("nan")
WORDS = ContrastWords(
    ("man", "gentleman", "male"), ("woman", "lady", "female"), ("person", "human", "figure")
)
ROW = {
    "gap": 0.1,
    "ci_low": 0.05,
    "ci_high": 0.15,
    "p_value": 0.01,
    "p_adjusted": 0.02,
    "n_prompts": 24,
    "word_gap": 0.09,
    "word_low": 0.03,
    "word_high": 0.15,
    "word_df": 4,
    "p_control": 0.01,
    "n_words_first": 3,
    "n_words_second": 3,
    "n_references": 3,
    "delta": 0.02,
    "p_equivalent": 1.0,
    "n_controls": 6,
    "reason": "",
    "warning": "",
}


def card(metric=2, words=WORDS, p_measures=None, **changes):
    return wording.finding(
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
        "Images generated from neutral prompts (person, human, figure) are nearer to those generated from masculine "
        "prompts (man, gentleman, male) than to those generated from feminine prompts (woman, lady, female)."
    )
    assert card().against_words == "More than these words differ among themselves."
    assert card(metric=0).claim.startswith(
        "Text embeddings of neutral prompts (person, human, figure) are nearer to"
    )
    # a gap that is not held over words speaks of the indicators' own three
    assert "(person) are nearer to those generated from masculine prompts (man) or" in card(ci_low=-1).claim


def test_few_words_are_a_hint_and_say_how_few():
    few = card(n_words_first=2, n_words_second=2, n_references=1, p_floor=1 / 3)
    assert few.claim.startswith("A hint, from 2 words against 2 and 1 reference word: images generated from")
    assert "a claim without a hedge takes 3 of each" in few.against_words
    assert "No exchange of so few words could give a p below 0.333" in few.against_words
    assert few.tag == "nearer to masculine, a hint"
    two = card(
        n_words_first=1,
        n_words_second=1,
        words=ContrastWords(("man",), ("woman",), ("person", "human", "figure")),
    )
    assert (
        two.claim.startswith("About these two words alone: images") and "two words alone" in two.against_words
    )


@pytest.mark.parametrize("n", [2, 5])
def test_of_under_six_prompts_there_is_a_value_and_no_direction(n):
    """Sign flips of n prompts have 2**n patterns, so that a two-sided p is 2 / 2**n at least: 0.0625 of five."""
    few = card(n_prompts=n)
    assert few.verdict.state == "no interval" and few.direction == 0 and few.against_words == ""
    assert f"cannot be told: {n} prompts are too few for an interval or a direction (it takes 6)" in few.claim
    assert all(np.isnan(few.row[name]) for name in ("ci_low", "ci_high", "p_value", "word_low", "p_control"))
    assert card(n_prompts=6).direction == 1


@pytest.mark.parametrize(
    ("changes", "claim", "against"),
    [
        (
            {"p_control": 0.3, "word_df": 2},
            "cannot be told: the gap is not more than",
            "with 2 degrees of freedom",
        ),
        (
            {"p_control": NAN, "n_controls": 0},
            "no words were run that tell a lean from two words",
            "no word of the same meaning",
        ),
        ({"gap": NAN, "reason": "no image; controls: one"}, "is undefined: no image.", ""),
        (
            {"gap": 0.0, "p_control": NAN, "reason": "the same; controls: neither words nor prompts differ"},
            "No gap:",
            "neither words nor prompts differ: there is no gap to hold against them.",
        ),
    ],
)
def test_what_is_not_claimed_says_why(changes, claim, against):
    p_measures = changes.pop("p_measures", None)
    shown = card(p_measures=p_measures, **changes)
    assert claim in shown.claim and against in shown.against_words and shown.direction == 0
    assert "nearer to" not in shown.claim or shown.claim.startswith("Whether ")  # no direction in passing


def test_what_cannot_be_told_names_the_gap_that_would_be_found_and_the_next_design():
    """All of the error is the prompts', and power is that of Student's t."""
    shares = {"share_words": 0.0, "share_references": 0.0, "share_prompts": 1.0}
    row = {"p_control": 0.5, "word_error": 0.116, "delta": 0.1} | shares
    said = card(n_references=1, **row).remarks[-1]
    sd = 0.116 * np.sqrt(24)
    found = TTestPower().solve_power(nobs=24, power=0.8, alpha=0.05) * sd
    prompts = TTestPower().solve_power(effect_size=0.1 / sd, power=0.8, alpha=0.05)
    numbers = re.match(
        r"With these words and prompts a gap of ([\d.]+) is found in four runs of five\. "
        r"To find one of δ = 0\.10\d* in SSIM so often takes about ([\d,]+) prompts\.$",
        said,
    )
    assert numbers, said
    assert float(numbers[1]) == pytest.approx(found, rel=0.05)
    assert int(numbers[2].replace(",", "")) == pytest.approx(prompts, rel=0.1)
    words = card(**row | {"share_words": 0.9, "share_prompts": 0.1, "delta": 0.02}).remarks[-1]
    assert words.endswith("To find one of δ = 0.020 in SSIM so often takes more than 12 words a side.")
    assert not any("four runs of five" in remark for remark in card().remarks)  # a direction is claimed
    assert not any("four runs" in remark for remark in card(p_control=NAN, ci_low=-1.0).remarks)  # no test


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
    assert len(answer.split()) <= wording.LONGEST_ANSWER and answer.endswith(".") and answer.count(". ") == 0
    assert answer.startswith("For this prompt alone: ") == (unit == "seed")
    directed = "nearer to those of masculine than of feminine prompts" in answer
    assert directed == (found.direction == 1)
    assert ("A hint, from" in answer) == (found.verdict.licence == "hint")
    assert ("About these two words alone" in answer) == (found.verdict.licence == "two words")
    if not directed:
        opening = ("Not known", "Open", "No difference larger than δ", "No gap", "Undefined")
        assert answer.removeprefix("For this prompt alone: ").startswith(opening)
    if found.verdict.licence in ("hint", "two words"):
        assert "more than words" not in answer
