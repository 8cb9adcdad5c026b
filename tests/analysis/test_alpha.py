"""`measure.level` is the level of the intervals, and every test is at one minus it."""

import re
from pathlib import Path

import pandas as pd
import pytest

import analysis
from analysis.methods.dalleval.page_tests import even_refuted
from analysis.methods.gep.method import _SCORE
from analysis.methods.tracing.effects import WHAT
from analysis.methods.tracing.findings import REDUNDANT, interplay, marked
from analysis.report.environment import sentence
from analysis.report.figures.atlas import beyond_words
from analysis.report.figures.objects import filled_scores
from analysis.report.section import lines
from analysis.report.wording_objects import told
from analysis.stats.object_counts import object_table
from analysis.tables.objects.claims import claim_table
from probes.config.measurement import Measure

PAIR = ("feminine", "masculine")


@pytest.mark.parametrize(("level", "significant"), [(0.95, True), (0.99, False)])
def test_a_p_of_3_percent_is_significant_at_95_and_not_at_99(level, significant):
    alpha, p = Measure(level=level).alpha, 0.03
    score = dict.fromkeys(
        ("score", "floor", "p_value", "p_adjusted", "p_smallest", "debiased", "low", "high"), p
    )
    score |= dict.fromkeys(("setting", "first", "second", "reason"), "") | {
        "kind": "contrast",
        "source": "human",
    }
    answer, _ = lines(_SCORE, {"rows": [score], "source": "human", "alpha": alpha})
    assert ("not more" in answer) != significant
    mad = pd.DataFrame([{"source": "clip", "question": "gender", "indicator": "neutral", "p_adjusted": p}])
    assert even_refuted(mad, "neutral", alpha) == significant
    place = {"kind": "site", "site": "unet.mid", "estimand": "sufficiency", "p_adjusted": p}
    assert marked(pd.DataFrame([dict.fromkeys(WHAT) | place]), alpha)["significant"].tolist() == [significant]
    shares = (("sufficiency", -0.4), ("necessity", 0.4))
    rows = {name: {"share": value, "p_adjusted": p} for name, value in shares}
    assert interplay(rows, alpha) == (REDUNDANT if significant else "")
    assert filled_scores(p, alpha) == significant and beyond_words([p], alpha).tolist() == [significant]
    row = {"p_value": p, "reason": ""}
    whole = sentence("objects", "whole", row, PAIR, told(row, alpha), True, False)
    assert ("cannot be distinguished" not in whole) == significant


def test_objects_are_claimed_at_one_minus_the_level():
    """A hat with every word of the second side and none of the first, in eight prompts: p = 2/2^8 = .0078."""
    keys = [(prompt, 0, word) for prompt in range(8) for word in "abcxyz"]
    images = pd.DataFrame(keys, columns=["prompt", "seed", "indicator"])
    table = object_table(
        images, [[int(word in "xyz")] for *_, word in keys], indicators="abcxyz", objects=["hat"]
    )
    for level, claim in (
        (0.95, "detector not checked"),
        (0.99, "detector not checked"),
        (0.995, "not significant"),
    ):
        rows = claim_table(table, [("a", "x")], {"a": "abc", "x": "xyz"}, level=level)
        assert rows["claim"].item() == claim


def test_no_module_of_methods_or_report_compares_p_with_a_level_of_its_own():
    root = Path(analysis.__file__).parent
    own = re.compile(
        r"(SIGNIFICANT|ALPHA|LEVEL) = 0\.0|[<>]=? ?0\.05\b|adjusted p(-value)? (&lt;|<|below) 0\.05"
    )
    files = [*root.rglob("*.py"), *root.rglob("*.j2")]
    found = [file for file in files if file.parent.name != "stats" and own.search(file.read_text())]
    assert root / "report" / "page.py" in files and not found
