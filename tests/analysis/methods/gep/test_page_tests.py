"""What a page on attributes says is tested together: settings and contrasts, with p-values by statsmodels."""

import pandas as pd
import pytest
from statsmodels.stats.multitest import multipletests

from analysis.methods.gep.tables import adjust_page

PAIR = {"first": "feminine", "second": "masculine"}


def tables(neutral, explicit, attribute):
    """Scores of two settings and a vector; those of another source, of the reference and of synonyms are below."""
    rows = [
        *(
            ("checker", setting, "contrast", p)
            for setting, p in (("neutral", neutral), ("explicit", explicit))
        ),
        *((source, "neutral", kind, 1e-5) for source, kind in (("C", "contrast"), ("checker", "control"))),
        ("checker", "neutral", "reference", 1e-5),
    ]
    score = pd.DataFrame(rows, columns=["source", "setting", "kind", "p_value"]).assign(**PAIR)
    score = score.assign(score=0.2, floor=0.1, unit="contexts", p_smallest=1e-4, reason="")
    vector = score.rename(columns={"p_value": "p_adjusted"})[["source", "setting", "kind", "first", "second"]]
    return vector.assign(attribute="tie", p_adjusted=attribute), score


def test_scores_of_settings_are_adjusted_for_one_another_and_for_nothing_else():
    """Of two settings without a difference 9.75 % have one below 0.05."""
    vector, score = adjust_page(*tables(0.04, 0.3, 0.001))
    expected = multipletests([0.04, 0.3], method="holm")[1]
    assert score["p_adjusted"].dropna().to_dict() == pytest.approx(dict(enumerate(expected)))
    assert vector["p_adjusted"].to_list() == pytest.approx([*expected, 0.001, 0.001, 0.001])
