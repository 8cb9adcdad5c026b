"""Articles by sound: cases by hand, and what a template does with the article its author wrote."""

import csv
from pathlib import Path

from probes.prompts.grammar.english import article
from probes.prompts.prompt import fill_person

CASES = list(csv.DictReader((Path(__file__).parent / "articles.csv").open(encoding="utf-8", newline="")))


def test_cases_by_hand():
    """More than 200 words, written down without the rule: numbers, letters read out, u, eu, h and plain words."""
    assert len({case["word"] for case in CASES}) == len(CASES) > 200
    assert {case["article"] for case in CASES} == {"a", "an"}
    wrong = [case for case in CASES if article(case["word"]) != case["article"]]
    assert wrong == []


def test_the_right_article_stays_and_the_wrong_one_is_mended():
    for word, right in ((case["word"], case["article"]) for case in CASES):
        for written in ("a", "an", "A", "An"):
            shown = right.capitalize() if written[0] == "A" else right
            assert fill_person(f"{written} {{person}} smiles", word)[0] == f"{shown} {word} smiles"
        assert fill_person(f"the {{person}} and an {word}", word)[0] == f"the {word} and an {word}"


def test_what_is_spoken_in_two_ways_keeps_what_was_written():
    for word in ("herbalist", "historian"):
        for written in (f"a {word}", f"an {word}"):
            assert fill_person(f"{written.split()[0]} {{person}}", word)[0] == written
