"""Published counts read as an audit: against SciPy and statsmodels."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from lab.pages.blocks import ROOT
from lab.papers import uce
from lab.papers.tables import read_table


@pytest.fixture(scope="module")
def edited():
    return uce.mitigations()[0]


def test_the_page_is_that_of_the_tables():
    page = (ROOT / "docs/validation/published_audits.md").read_text("utf-8")
    assert page == uce.page(), "run: python -m lab.papers.uce > docs/validation/published_audits.md"


def test_counts_are_whole_images():
    table = read_table("uce2024_mitigations", ["profession", *uce.MODELS], numeric=tuple(uce.MODELS))
    own = read_table("uce2024_sd14_templates", ["profession", *uce.TEMPLATES], numeric=uce.TEMPLATES)
    for counts, most in ((table[list(uce.MODELS)], 100), (own[list(uce.TEMPLATES)], 10)):
        assert ((counts % 1 == 0) & counts.ge(0) & counts.le(most)).all(axis=None)
    assert (len(table), len(own)) == (37, 200) and not own["profession"].duplicated().any()


def test_shares_are_those_of_statsmodels(edited):
    for row in edited["shares"].to_dict("records")[::7]:
        low, high = proportion_confint(row["count"], 100, method="wilson")
        assert (row["low"], row["high"]) == pytest.approx((low, high), abs=1e-12)
        assert row["p_value"] == pytest.approx(stats.binomtest(row["count"], 100, 0.5).pvalue, abs=1e-12)


def test_differences_are_newcombes(edited):
    rows = edited["models"][edited["models"]["profession"] != "all"].to_dict("records")
    assert len(rows) == 3 * 37
    for row in rows[::9]:
        second, first = round(100 * row["share_second"]), round(100 * row["share_first"])
        expected = confint_proportions_2indep(second, 100, first, 100, compare="diff", method="newcomb")
        assert (row["low"], row["high"]) == pytest.approx(expected, abs=1e-12)


def test_what_all_professions_have_in_common(edited):
    counts = read_table("uce2024_mitigations", ["profession", *uce.MODELS], numeric=tuple(uce.MODELS))
    rows = edited["models"].set_index(["first", "second", "profession"])
    for column in ("concept_algebra", "debiasing_vl"):
        row = rows.loc["SD 1.4", uce.MODELS[column], "all"]
        assert row["difference"] == pytest.approx((counts[column] - counts["sd_1_4"]).mean() / 100)
        squares = [(counts[name] / 100 - 0.5) ** 2 for name in (column, "sd_1_4")]
        chance = [(counts[name] / 100) * (1 - counts[name] / 100) / 99 for name in (column, "sd_1_4")]
        found = [np.sqrt((square - own).mean()) for square, own in zip(squares, chance)]
        assert (row["distance_second"], row["distance_first"]) == pytest.approx(found, abs=1e-9)
