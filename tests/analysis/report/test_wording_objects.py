"""Sentences on objects claim what the tests license, and no more."""

import numpy as np
import pandas as pd

from analysis.report.environment import sentence
from analysis.report.wording_objects import objects_opening, told
from analysis.tables.objects.claims import ALIKE


def rows_of(*rows):
    columns = ["object", "difference", "p_objects", "claim"]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(reason=np.where(table["claim"] == "not tested", ALIKE, ""))


def test_openings_follow_the_claims():
    pair = ("feminine", "masculine")
    holds = [(f"o{i}", 0.1 + i / 100, 0.01, "holds") for i in range(9)]
    text = objects_opening(rows_of(*holds, ("dress", -0.9, 0.01, "holds")), pair)
    assert (
        "10 of 10 objects differ (false discovery rate at most 5 %, Benjamini–Hochberg): over prompts and"
        in text
    )
    untested = [
        ("cup", 0.0, np.nan, "not tested"),
        *[(name, 0.1, np.nan, "not significant") for name in "ab"],
    ]
    text = objects_opening(rows_of(*holds, *untested), pair)
    assert text.startswith("9 of 12 objects differ (") and text.endswith(
        " Of the others 2 are too rare: the two sides differ at too few prompts for a test;"
        " 1 is in as many images of both sides at every prompt."
    )
    text = objects_opening(rows_of(*holds, ("dress", -0.9, 0.01, "holds")), pair)
    assert "o8, o7, o6, o5, o4, o3 and 3 more" in text and "from feminine prompts: dress." in text
    assert "by more than words of one side differ among themselves (3 and 3 words)" in text
    text = objects_opening(rows_of(("cup", 0.1, 0.3, "not significant")), pair)
    assert "None of 1 object differs" in text and "does not show" in text
    assert "No object can be tested" in objects_opening(rows_of(("cup", 0.0, np.nan, "not tested")), pair)


def test_what_does_not_hold_is_hedged_or_not_counted():
    pair = ("feminine", "masculine")
    hedged = ("hat", 0.4, 0.2, "these words")
    assert "For these words alone 1 of 1 object differs" in objects_opening(
        rows_of(hedged), pair, words=(2, 2)
    )
    assert "2 against 2: too few to tell" in objects_opening(rows_of(hedged), pair, words=(2, 2))
    assert "one against one" in objects_opening(rows_of(hedged), pair, words=(1, 1))
    assert "perhaps by no more than words of one side" in objects_opening(rows_of(hedged), pair)
    text = objects_opening(rows_of(("tie", 0.5, 0.01, "holds"), hedged), pair)
    assert "1 of 2 objects differs" in text
    assert (
        "For these words alone 1 more differs (false discovery rate at most 5 % together with those above"
        in text
    )
    text = objects_opening(rows_of(("slacks", 0.4, 0.2, "not behind the detector")), pair)
    assert "None of 1 object differs" in text and "the detector’s errors may make it: slacks" in text


def test_table_sentences_follow_the_tables():
    def whole(p, reason="", checked=True, held=False):
        row = {"p_value": p, "reason": reason}
        return sentence("objects", "whole", row, ("feminine", "masculine"), told(row, 0.05), checked, held)

    assert whole(0.01).startswith("A hint, about these two words alone: as a whole, the objects")
    held = whole(0.01, held=True)
    assert held.startswith("As a whole, ") and "by more than words of one side" in held
    unchecked = whole(0.01, checked=False)
    assert "what was detected" in unchecked and "a hint, no finding" in unchecked
    assert "cannot be distinguished" in whole(0.2) and "one prompt only" in whole(np.nan, "one prompt only")
    holds = {"p_value": 0.01, "warnings": "", "reason": ""}
    assert "nothing seen speaks against" in sentence("objects", "chi_square", holds, True)
    assert "does not hold here: few." in sentence("objects", "chi_square", holds | {"warnings": "few"}, True)
    assert "undefined" in sentence("objects", "chi_square", None, False)
