"""The rule for neutral captions and the swap, compared with sentences worked by hand."""

import csv
from pathlib import Path

import pytest

from probes.prompts.grammar.nouns import human_words_of_table_2
from probes.prompts.neutral import HUMAN, NO_PERSON, NUMBER, PHRASE, exclusion_reason, replace_person

REASONS = {"kept": "", "none": NO_PERSON, "phrase": PHRASE, "human": HUMAN, "number": NUMBER}
with Path(__file__).with_name("neutral_captions.csv").open(encoding="utf-8", newline="") as file:
    CASES = list(csv.DictReader(file, delimiter="|", quoting=csv.QUOTE_NONE))


def test_there_are_300_different_sentences_of_every_kind():
    assert len({case["caption"] for case in CASES}) == len(CASES) >= 300
    assert {case["decision"] for case in CASES} == set(REASONS)
    assert all(bool(case["feminine"]) == (case["decision"] == "kept") for case in CASES)


def test_decision_and_swap_are_those_by_hand():
    for case in CASES:
        caption = case["caption"]
        assert exclusion_reason(caption)[0] == REASONS[case["decision"]], caption
        if case["decision"] == "kept":
            swapped = [replace_person(caption, word) for word in ("woman", "man", "person")]
            assert swapped == [case["feminine"], case["masculine"], caption]


@pytest.mark.parametrize("forms", ["inflected", "printed"])
def test_every_word_of_table_2_is_a_reason_in_any_case_and_form(forms):
    for word in human_words_of_table_2():
        for text in (word, word.upper(), word.capitalize(), f"({word})", f"{word}'s", f'"{word}"'):
            assert exclusion_reason(f"A person and {text} on a bench", forms)[0] == HUMAN, text


@pytest.mark.parametrize("text", ["two men", "some ladies", "a bridesmaid", "a mans hat"])
def test_printed_words_alone_leave_plurals_and_repairs_in(text):
    assert exclusion_reason(f"a person with {text}")[0] == HUMAN
    assert exclusion_reason(f"a person with {text}", "printed")[0] == ""


@pytest.mark.parametrize(
    ("caption", "word", "expected"),
    [
        ("A person waves", "individual", "An individual waves"),
        ("A PERSON WAVES", "individual", "AN INDIVIDUAL WAVES"),
        ("a person and an apple", "adult", "an adult and an apple"),
        ("People wave; a person's dog barks", "adult", "Adults wave; an adult's dog barks"),
        ("people's hats", "adult", "adults' hats"),
        ("the persons' hats", "adult", "the adults' hats"),
        ("a person’s hat", "adult", "an adult’s hat"),
        ("an old person", "adult", "an old adult"),
        ("a 'person' waves", "adult", "an 'adult' waves"),
        ("Two people", "non-binary person", "Two non-binary people"),
        ("A person", "old lady", "An old lady"),
        ("a person", "honest man", "an honest man"),
        ("two people", "gentleman", "two gentlemen"),
        ("A person", "EMT", "An EMT"),
        ("a persons hand", "adult", "an adults hand"),
    ],
)
def test_other_words(caption, word, expected):
    assert replace_person(caption, word) == expected


def test_the_plural_may_be_said_and_the_article_kept():
    assert replace_person("a person and people", "ze", "zes") == "a ze and zes"
    assert replace_person("A person", "adult", articles="kept") == "A adult"
    assert replace_person("a person", "individual", articles="kept") == "a individual"
