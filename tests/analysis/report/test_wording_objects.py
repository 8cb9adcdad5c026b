"""Sentences on objects claim what the tests license, and no more."""

import numpy as np
import pandas as pd

from analysis.report import wording_objects
from analysis.report.objects import hints
from analysis.study import Member


def rows_of(*rows, words=3, corrected=0.001):
    columns = ["object", "difference_words", "p_claim_adjusted", "claim"]
    table = pd.DataFrame(rows, columns=columns)
    table = table.assign(words_first=words, words_second=words, p_corrected=corrected, claim_reason="")
    return table.assign(p_pooled=table["p_claim_adjusted"], n_differ=0)


def test_openings_follow_the_claims():
    pair = ("feminine", "masculine")
    say = wording_objects.objects_opening
    holds = [(f"o{i}", 0.1 + i / 100, 0.01, "holds") for i in range(9)]
    text = say(rows_of(*holds, ("dress", -0.9, 0.01, "holds")), pair)
    assert (
        "10 of 10 objects differ (false discovery rate at most 5 %, Benjamini–Hochberg over the objects"
        in text
    )
    untested = [
        ("cup", 0.0, np.nan, "not tested"),
        *[(name, 0.1, np.nan, "not significant") for name in "ab"],
    ]
    rows = rows_of(*holds, *untested).assign(n_differ=[7] * 9 + [0, 2, 3])
    text = say(rows, pair)
    assert text.startswith("9 of 12 objects differ (") and text.endswith(
        " Of the others 2 are too rare: the two sides differ at too few prompts for a test;"
        " 1 is in as many images of both sides at every prompt."
    )
    text = say(rows_of(*holds, ("dress", -0.9, 0.01, "holds")), pair)
    assert "o8, o7, o6, o5, o4, o3 and 3 more" in text and "from feminine prompts: dress." in text
    assert "by more than words of one side differ among themselves (3 and 3 words)" in text
    assert "behind the detector’s known errors" in text
    assert "detector" not in say(rows_of(*holds, corrected=np.nan), pair)
    text = say(rows_of(("cup", 0.1, 0.3, "not significant")), pair)
    assert "None of 1 object differs" in text and "does not show" in text
    assert "No object can be tested" in say(rows_of(("cup", 0.0, np.nan, "not tested")), pair)


def test_what_does_not_hold_is_hedged_or_not_counted():
    pair = ("feminine", "masculine")
    say = wording_objects.objects_opening
    hedged = ("hat", 0.4, 0.2, "these words")
    assert "For these words alone 1 of 1 object differs" in say(rows_of(hedged, words=2), pair)
    assert "2 against 2: too few to tell" in say(rows_of(hedged, words=2), pair)
    assert "one against one" in say(rows_of(hedged, words=1), pair)
    assert "perhaps by no more than words of one side" in say(rows_of(hedged), pair)
    text = say(rows_of(("tie", 0.5, 0.01, "holds"), hedged), pair)
    assert "1 of 2 objects differs" in text
    assert (
        "For these words alone 1 more differs (false discovery rate at most 5 % together with those above"
        in text
    )
    text = say(rows_of(("slacks", 0.4, 0.2, "not behind the detector")), pair)
    assert "None of 1 object differs" in text and "the detector’s errors may make it: slacks" in text


def test_an_unchecked_detector_makes_hints_with_their_tipping_points():
    pair = ("feminine", "masculine")
    tipping = {
        "tipping_sensitivity": 3.14,
        "tipping_sensitivity_bound": 1.68,
        "tipping_false": 0.31,
        "tipping_false_bound": 0.12,
    }
    hint = ("tie", 0.4, 0.01, "detector not checked")
    rows = rows_of(hint, corrected=np.nan).assign(claim_reason="the detector's errors on it are not known")
    text = wording_objects.objects_opening(rows.assign(**tipping), pair)
    assert text.startswith("A hint, no finding, since nobody checked the detector on it: 1 of 1 object is")
    assert "tie (3.1 times or 31 %; 1.7 times or 12 %)" in text and "differs" not in text
    assert "by more than words of one side differ among themselves (3 and 3 words)" in text
    alone = tipping | {"tipping_sensitivity": np.inf}
    assert "tie (seen in these alone or 31 %;" in wording_objects.objects_opening(rows.assign(**alone), pair)
    few = wording_objects.objects_opening(rows_of(hint, words=1, corrected=np.nan).assign(**tipping), pair)
    assert "one against one" in few
    both = pd.concat([rows_of(("hat", 0.5, 0.01, "holds")), rows.assign(**tipping)], ignore_index=True)
    text = wording_objects.objects_opening(both, pair)
    assert "1 of 2 objects differs (false" in text and "A hint, no finding" in text


def test_table_sentences_follow_the_tables():
    pair = ("feminine", "masculine")
    alone = wording_objects.table_sentence({"p_value": 0.01, "reason": ""}, pair)
    assert (
        alone.startswith("A hint, about these two words alone: as a whole, the objects")
        and "differ." in alone
    )
    held = wording_objects.table_sentence({"p_value": 0.01, "reason": ""}, pair, held=True)
    assert held.startswith("As a whole, ") and "by more than words of one side" in held
    unchecked = wording_objects.table_sentence({"p_value": 0.01, "reason": ""}, pair, checked=False)
    assert "what was detected" in unchecked and "a hint, no finding" in unchecked
    assert "cannot be distinguished" in wording_objects.table_sentence({"p_value": 0.2, "reason": ""}, pair)
    assert "one prompt only" in wording_objects.table_sentence(
        {"p_value": np.nan, "reason": "one prompt only"}, pair
    )
    holds = {"p_value": 0.01, "warnings": "", "reason": ""}
    assert "nothing seen speaks against" in wording_objects.chi_square_sentence(holds)
    assert "does not hold here: few." in wording_objects.chi_square_sentence(holds | {"warnings": "few"})
    assert "undefined" in wording_objects.chi_square_sentence(None)


def test_a_cell_of_a_dependency_group_is_a_hint_only_where_words_of_one_meaning_differ_less():
    """Pictures that hardly differ: which objects a word's map covers differs between any two words."""
    people = [Member("n", "person"), Member("f", "woman"), Member("m", "man"), Member("h", "human", "n")]
    rows = [
        ("implicitly_independent", "f-m", 0.0005, 0.30),
        ("implicitly_independent", "n-h", 0.0005, 0.35),  # of one meaning, and as far apart
        ("implicitly_guided", "f-m", 0.0005, 0.30),
        ("implicitly_guided", "n-h", 0.4, 0.12),
        ("hidden", "f-m", 0.03, 0.30),  # above 0.05 once adjusted over more cells
        ("hidden", "n-h", 0.4, 0.12),
    ]
    tests = pd.DataFrame(rows, columns=["group", "indicators", "p_value", "cramers_v"]).assign(
        cramers_v_floor=0.1
    )
    assert hints(tests, {"f-m"}, people) == {("implicitly_guided", "f-m"), ("hidden", "f-m")}
    more = {"f-m", "n-f", "n-m"}
    further = [(group, pair, 0.5, 0.1) for group in ("hidden", "all") for pair in ("n-f", "n-m")]
    tests = pd.concat([tests, pd.DataFrame(further, columns=list(tests)[:4]).assign(cramers_v_floor=0.1)])
    assert hints(tests, more, people) == {("implicitly_guided", "f-m")}
    alone = tests[
        tests["indicators"] != "n-h"
    ]  # nothing to hold against: words of a null were marked in 8 of 10 runs
    assert hints(alone, more, people) == set()
