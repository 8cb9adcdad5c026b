"""What a page on professions says is tested together, with p-values by statsmodels; what it then names."""

import pandas as pd
import pytest
from statsmodels.stats.multitest import multipletests

from analysis.methods.dalleval.page_tests import adjust_page, even_refuted, said_words

WORDS = ("neutral", "feminine")


def tables(even, gender, tone, attributes, words=()):
    """Tables of one reader and its p-values; of other words and readers they are far below all of them.

    `words` are p-values of differences between words; those of single professions, of synonyms and of another reader
    are far below them.
    """
    rows = [
        {
            "source": source,
            "question": question,
            "indicator": word,
            "different": 2,
            "p_value": p,
        }
        for source, question, word, p in (
            ("checker", "gender", "neutral", even),
            ("checker", "gender", "feminine", 1e-5),
            ("other", "gender", "neutral", 1e-5),
            ("ita", "tone", "neutral", 1e-5),
            ("ita", "tone", "(all)", 1e-5),
        )
    ]
    mad = pd.DataFrame(rows).assign(reason="", professions=20, tested=20)
    tested = [
        ("checker", "gender", "neutral", gender),
        ("checker", "gender", "feminine", 1e-5),
        ("ita", "tone", "neutral", 1e-5),
        ("ita", "tone", "(all)", tone),
        *(("checker", name, word, p) for name, p in attributes.items() for word in WORDS),
        ("checker", "boots", "(all)", 1e-5),
    ]
    between = pd.DataFrame(tested, columns=["source", "question", "indicator", "p_adjusted"])
    between = between.assign(p_value=between["p_adjusted"])
    rows = [("checker", name, "(all)", "contrast", p) for name, p in dict(words).items()]
    rows += [
        *([("checker", "gender", "nurse", "contrast", 1e-5)] if rows else []),
        *([("checker", "gender", "(all)", "control", 1e-5)] if rows else []),
        *([("other", "gender", "(all)", "contrast", 1e-5)] if rows else []),
    ]
    apart = pd.DataFrame(rows, columns=["source", "question", "profession", "kind", "p_adjusted"])
    apart = apart.assign(first="feminine", second="masculine")
    return mad, between.assign(different=3, tested=20, explained=0.1, floor=0.05, reason=""), apart


def test_p_values_of_the_page_are_hommels_and_of_nothing_else():
    read = tables(
        0.02, 0.013, 0.4, {"boots": 0.03, "jeans": 0.6}, {"gender": 0.011, "tone": 0.2, "jeans": 0.9}
    )
    mad, between, words = adjust_page(*read, "neutral", 0.05)
    even, gender, tone, boots, apart = multipletests([0.02, 0.013, 0.4, 0.03, 0.011], method="hommel")[1]
    assert mad["p_adjusted"].dropna().to_dict() == pytest.approx({0: even})
    between = between[between["p_adjusted"] != 1e-5]  # of which the page says nothing
    named = between.set_index(["question", "indicator"])["p_adjusted"].to_dict()
    expected = {("gender", "neutral"): gender, ("tone", "(all)"): tone}
    expected |= {("boots", word): boots for word in WORDS} | {("jeans", word): 0.6 for word in WORDS}
    assert named == pytest.approx(expected)
    assert words["p_adjusted"].tolist() == pytest.approx([apart, 0.2, 0.9, 1e-5, 1e-5, 1e-5])


def test_four_tests_that_each_reject_alone_say_nothing_together():
    mad, between, _ = adjust_page(*tables(0.045, 0.3, 0.048, {"boots": 0.7}), "neutral", 0.05)
    between = between[between["p_adjusted"] != 1e-5]  # of which the page says nothing
    assert not even_refuted(mad, "neutral", 0.05) and (between["p_adjusted"] >= 0.05).all()
    assert mad.loc[0, "different"] == 0 and not between["different"].any()


def test_a_difference_between_words_is_told_only_where_the_page_leaves_it():
    """A tone that differs with p = 0.032 of its own family is none beside four questions that say nothing."""
    for p, told in ((0.032, False), (0.004, True)):
        read = tables(0.4, 0.3, 0.6, {"boots": 0.7}, {"gender": 0.5, "tone": 0.6, "boots": p})
        _, _, words = adjust_page(*read, "neutral", 0.05)
        assert (said_words(words)["p_adjusted"] < 0.05).any() == told
