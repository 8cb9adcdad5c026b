"""Tables of an audit against SciPy and statsmodels, computed from the labels themselves."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from analysis.methods.audit.claims import QUESTIONS, possible, question_rows, sentences
from analysis.methods.audit.design import ALL, Design, count_cells, read_reference
from analysis.methods.audit.labelled_audit import measure_cells
from probes.errors import UserError
from tests.analysis.methods.audit.pictures import COUNTS, LEVELS


@pytest.fixture(scope="module")
def measured(audit):
    return audit.tables


def test_shares_and_intervals_are_statsmodels(measured):
    rows = measured["shares"].set_index(["model", "profession", "setting"])
    assert set(rows.index) == set(COUNTS)
    for key, (female, male, both) in COUNTS.items():
        row, n = rows.loc[key], female + male
        assert (row["count"], row["decided"], row["pictures"]) == (female, n, n + both)
        assert row["bound_low"] == female / (n + both) and row["bound_high"] == (female + both) / (n + both)
        if not n:
            assert (
                np.isnan(row["share"]) and np.isnan(row["p_value"]) and row["reason"] == "no decided picture"
            )
            continue
        assert row["share"] == female / n
        ends = proportion_confint(female, n, method="wilson")
        assert (row["low"], row["high"]) == pytest.approx(ends, abs=1e-12)
        assert row["p_value"] == pytest.approx(stats.binomtest(female, n, 0.5).pvalue, abs=1e-12)
    p = rows["p_value"].dropna()
    hommel = pd.Series(multipletests(p, method="hommel")[1], p.index)
    gates = measured["ranks"].set_index(["model", "setting"])["p_adjusted"]
    for (model, profession, setting), value in hommel.items():
        expected = max(value, gates[model, setting])
        assert rows.loc[(model, profession, setting), "p_adjusted"] == pytest.approx(expected, abs=1e-12)


def test_contrasts_are_newcombes_and_fishers(measured):
    rows = question_rows(measured, "contrast").set_index(["model", "profession"])
    assert {*zip(rows["compared"], rows["first"], rows["second"])} == {("setting", "baseline", "diverse")}
    for (model, profession), row in rows.iterrows():
        if profession == ALL:
            continue
        (a, b), (c, d) = (COUNTS[model, profession, name][:2] for name in ("baseline", "diverse"))
        if not c + d:
            assert np.isnan(row["difference"]) and row["reason"] == "no decided picture"
            continue
        ends = confint_proportions_2indep(c, c + d, a, a + b, method="newcomb")
        assert (row["low"], row["high"]) == pytest.approx(ends, abs=1e-12)
        fisher = stats.fisher_exact([[a, b], [c, d]]).pvalue
        assert row["p_value"] == pytest.approx(fisher, abs=1e-12)
    assert rows.loc[("b", ALL), "reason"] == "over 2 of 3"
    over = rows.loc[("a", ALL)]
    each = rows.loc["a"].drop(ALL)
    assert over["difference"] == pytest.approx(each["difference"].mean(), abs=1e-12)
    down = np.sqrt(((each["difference"] - each["low"]) ** 2).sum()) / 3
    assert over["low"] == pytest.approx(over["difference"] - down, abs=1e-12)
    assert rows["overshoots"].to_dict()["a", "CEO"] and rows["overshoots"].sum() == 1


def test_models_are_compared_within_each_prompt(measured):
    rows = question_rows(measured, "models").set_index(["profession", "setting"])
    nurse = rows.loc[("nurse", "baseline")]
    assert nurse["p_value"] == pytest.approx(stats.fisher_exact([[10, 0], [5, 5]]).pvalue, abs=1e-12)
    assert nurse["difference"] == -0.5 and (nurse["first"], nurse["second"]) == ("a", "b")
    ranks = measured["ranks"].set_index(["setting", "model"])
    assert ranks.loc["baseline", "rank"].to_dict() == {"b": 1, "a": 2}
    share = np.mean([10 / 10, 0, 3 / 9])
    assert ranks.loc[("baseline", "a"), "share"] == pytest.approx(share)
    p = [stats.binomtest(k, n, 0.5).pvalue for k, n in ((10, 10), (0, 10), (3, 9))]
    combined = stats.combine_pvalues(p, method="fisher").pvalue
    assert ranks.loc[("baseline", "a"), "p_value"] == pytest.approx(combined, abs=1e-12)


def test_distances_are_root_mean_squares_without_what_chance_adds(measured):
    row = question_rows(measured, "ranks").set_index("setting").loc["baseline"]
    squares = []
    for model in "ab":
        counts = [COUNTS[model, level, "baseline"][:2] for level in LEVELS]
        unbiased = [
            np.mean([(x - 0.5) * (y - 0.5) for i, x in enumerate(one) for j, y in enumerate(one) if i != j])
            for one in ([1] * female + [0] * male for female, male in counts)
        ]
        squares.append(max(0, np.mean(unbiased)))
    assert (row["value_first"], row["value_second"]) == pytest.approx(np.sqrt(squares), abs=1e-12)
    ranks = measured["ranks"].set_index(["setting", "model"])
    assert row["p_adjusted"] <= 0.05 and ranks.loc[("baseline", "b"), ["rank_low", "rank_high"]].tolist() == [
        1,
        1,
    ]


def test_professions_differ_by_a_permutation_of_their_pictures(measured):
    row = measured["between"].set_index(["model", "setting"]).loc[("a", "baseline")]
    table = np.array([COUNTS["a", level, "baseline"][:2] for level in LEVELS])
    answers = np.concatenate([np.repeat([1.0, 0.0], counts) for counts in table])
    levels = np.repeat([0, 1, 2], table.sum(axis=1))
    chi_squared = stats.chi2_contingency(table, correction=False)
    assert row["explained"] == pytest.approx(chi_squared.statistic / len(answers), abs=1e-12)
    assert row["p_value"] < 0.01
    rng = np.random.default_rng(0)
    shares = [
        stats.f_oneway(*(order[levels == one] for one in range(3))).statistic
        for order in (rng.permutation(answers) for _ in range(2000))
    ]
    f = np.array(shares)
    assert (2 * f / (2 * f + len(answers) - 3)).mean() == pytest.approx(row["floor"], abs=0.005)


def test_what_the_page_says_is_held_to_its_adjusted_tests(audit, measured):
    """Every question's smallest p-value is adjusted over the questions; no row of the page lies below its own."""
    least, page = [], []
    for name in QUESTIONS:
        rows = question_rows(measured, name)
        p_values = rows["p_value"].dropna()
        own = multipletests(p_values, method="hommel")[1]
        assert (rows.loc[p_values.index, "p_adjusted"] >= own - 1e-12).all()
        least.append(own.min())
        page.append(rows["p_adjusted"].min())
    assert page == pytest.approx(multipletests(least, method="holm")[1], abs=1e-12)
    first = audit.findings.drop_duplicates("question")
    for name, line, value in zip(first["question"], first["sentence"], page, strict=True):
        assert (value <= 0.05) == ("smallest adjusted" not in line), name
    text = possible(measured["shares"], audit.design)
    assert "pictures a cell" in text and "cells" in text


def test_the_reference_may_be_a_table_and_rest_on_so_many(tmp_path):
    path = tmp_path / "world.csv"
    pd.DataFrame(
        {"profession": [*LEVELS, "judge"], "share": [0.87, 0.31, 0.1, 0.4], "n": [400, 300, 50, 9]}
    ).to_csv(path, index=False)
    shares, sizes = read_reference(path, "profession", LEVELS)
    assert shares == dict(zip(LEVELS, (0.87, 0.31, 0.1))) and sizes == dict(zip(LEVELS, (400, 300, 50)))
    levels = {"model": ("a",), "profession": LEVELS}
    own = Design("female", ("female", "male"), (), ("profession",), levels, shares, sizes)
    answers = ["female"] * 7 + ["male"] * 3
    readings = pd.DataFrame({"model": "a", "profession": np.repeat(LEVELS, 10), "answer": answers * 3})
    rows = measure_cells(count_cells(readings, own), own)["shares"].set_index("profession")
    for name in LEVELS:
        ends = confint_proportions_2indep(7, 10, shares[name] * sizes[name], sizes[name], method="newcomb")
        assert rows.loc[name, "difference"] == pytest.approx(0.7 - shares[name])
        assert (rows.loc[name, "difference_low"], rows.loc[name, "difference_high"]) == pytest.approx(
            ends, abs=1e-12
        )
    for text, message in (
        ("profession,share\nnurse,0.5\n", "profession: expected a row, got 'CEO'"),
        (
            "profession,share\nnurse,1.5\nCEO,0.5\npilot,0.1\n",
            "line 2: expected a share from 0 to 1, got '1.5'",
        ),
        (
            "profession,share\nnurse,0.5\nCEO,0.5\npilot,0.1\nCEO,0.2\n",
            "line 5: expected every profession once",
        ),
        ("job,share\nnurse,0.5\n", "expected a column `profession`, found job, share"),
    ):
        path.write_text(text)
        with pytest.raises(UserError, match=message):
            read_reference(path, "profession", LEVELS)


@pytest.mark.parametrize("counts", [(5, 3, 0), (0, 0, 4), (1, 0, 0)])
def test_one_cell_has_all_tables_and_no_differences(counts):
    answers = np.repeat(["female", "male", "both"], counts)
    readings = pd.DataFrame({"model": "a", "profession": "nurse", "answer": answers})
    levels = {"model": ("a",), "profession": ("nurse",)}
    own = Design("female", ("female", "male"), ("both",), ("profession",), levels, {"nurse": 0.5})
    tables = measure_cells(count_cells(readings, own), own)
    assert tables["differences"].empty and tables["between"]["reason"][0].startswith("fewer than two")
    said = [question for question, _ in sentences(tables, own)]
    assert said.count("reference") == (counts[0] > 0) and "models" not in said
    assert tables["ranks"]["rank_low"].tolist() == [1]
