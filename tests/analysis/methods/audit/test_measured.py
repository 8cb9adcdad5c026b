"""Tables of an audit against SciPy and statsmodels, computed from the labels themselves."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from analysis.methods.audit.claims import QUESTIONS, possible, sentences
from analysis.methods.audit.design import ALL, AuditCell, Design, read_reference
from analysis.methods.audit.differences import Pair, compare_pair, compare_pairs
from analysis.methods.audit.labelled_audit import measure, measure_cells
from analysis.methods.audit.labels import find_columns, join_answers, open_labels, read_labels
from probes.errors import UserError
from tests.analysis.methods.audit.pictures import table_of, write_pictures

LEVELS = ("nurse", "CEO", "pilot")
COUNTS = {
    ("a", "nurse", "baseline"): (10, 0, 0),
    ("a", "CEO", "baseline"): (0, 10, 0),
    ("a", "pilot", "baseline"): (3, 6, 1),
    ("a", "nurse", "diverse"): (7, 1, 2),
    ("a", "CEO", "diverse"): (10, 0, 0),
    ("a", "pilot", "diverse"): (5, 5, 0),
    ("b", "nurse", "baseline"): (5, 5, 0),
    ("b", "CEO", "baseline"): (6, 4, 0),
    ("b", "pilot", "baseline"): (4, 5, 1),
    ("b", "nurse", "diverse"): (6, 4, 0),
    ("b", "CEO", "diverse"): (5, 5, 0),
    ("b", "pilot", "diverse"): (0, 0, 10),
}


def design(**changes):
    levels = {"model": ("a", "b"), "profession": LEVELS, "setting": ("baseline", "diverse")}
    said = (
        "female",
        ("female", "male"),
        ("both",),
        ("profession", "setting"),
        levels,
        dict.fromkeys(LEVELS, 0.5),
    )
    return Design(*said, **changes)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audit")
    path = write_pictures(folder, table_of(COUNTS))
    texts = open_labels(path)
    rows = read_labels(path, folder, find_columns(texts, path), texts)
    return measure(rows, join_answers(rows), design(), resamples=50)


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
    hommel = multipletests(p, method="hommel")[1]
    assert rows.loc[p.index, "p_adjusted"].to_numpy() == pytest.approx(hommel, abs=1e-12)


def test_contrasts_are_newcombes_and_fishers(measured):
    rows = measured["contrasts"].set_index(["model", "profession"])
    assert set(rows["baseline"]) == {"baseline"} and set(rows["setting"]) == {"diverse"}
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
        mirrored = stats.fisher_exact([[b, a], [c, d]]).pvalue
        assert row["p_distance"] == pytest.approx(max(fisher, mirrored), abs=1e-12)
        assert row["distance_difference"] == pytest.approx(abs(c / (c + d) - 0.5) - abs(a / (a + b) - 0.5))
    assert rows.loc[("b", ALL), "reason"] == "over 2 of 3"
    over = rows.loc[("a", ALL)]
    each = rows.loc["a"].drop(ALL)
    assert over["difference"] == pytest.approx(each["difference"].mean(), abs=1e-12)
    down = np.sqrt(((each["difference"] - each["low"]) ** 2).sum()) / 3
    assert over["low"] == pytest.approx(over["difference"] - down, abs=1e-12)


def test_models_are_compared_within_each_prompt(measured):
    rows = measured["models"].set_index(["profession", "setting"])
    nurse = rows.loc[("nurse", "baseline")]
    assert nurse["p_value"] == pytest.approx(stats.fisher_exact([[10, 0], [5, 5]]).pvalue, abs=1e-12)
    assert nurse["difference"] == -0.5 and np.isnan(nurse["p_distance"])
    ranks = measured["ranks"].set_index(["setting", "model"])
    assert ranks.loc["baseline", "rank"].to_dict() == {"b": 1, "a": 2}
    share = np.mean([10 / 10, 0, 3 / 9])
    assert ranks.loc[("baseline", "a"), "share"] == pytest.approx(share)
    p = [stats.binomtest(k, n, 0.5).pvalue for k, n in ((10, 10), (0, 10), (3, 9))]
    combined = stats.combine_pvalues(p, method="fisher").pvalue
    assert ranks.loc[("baseline", "a"), "p_value"] == pytest.approx(combined, abs=1e-12)


def test_what_the_page_says_is_held_to_its_adjusted_tests(measured):
    """Every question's smallest p-value is adjusted over the questions; no row of the page lies below its own."""
    own = design()
    tested = [(measured[table][p], measured[table][page]) for table, p, page in QUESTIONS.values()]
    for own_p, page in tested:
        assert (page[page.notna()] >= own_p[page.notna()]).all()
    holm = multipletests([one.min() for one, _ in tested], method="holm")[1]
    assert [page.min() for _, page in tested] == pytest.approx(holm, abs=1e-12)
    said = sentences(measured, own)
    for lines, (_, page) in zip(said.values(), tested, strict=True):
        assert lines and (page <= own.alpha).any() == ("smallest adjusted" not in lines[0])
    assert "pictures a cell" in possible(measured, own) and "cells" in possible(measured, own)


def test_shared_noises_are_compared_noise_by_noise():
    rng = np.random.default_rng(3)
    noise = rng.standard_normal(30)
    first, second = ((noise + 0.3 * rng.standard_normal(30) < edge).astype(float) for edge in (-0.2, 0.5))
    pair = Pair(*(AuditCell(hits, np.ones(30), 30) for hits in (first, second)), 0.5)
    found = compare_pair(pair, design(clustered=True), paired=True)
    table = [[((first == i) & (second == j)).sum() for j in (1, 0)] for i in (1, 0)]
    assert found["p_value"] == pytest.approx(mcnemar(table, exact=True).pvalue, abs=1e-12)
    alone = compare_pair(pair, design(), paired=True)
    assert found["low"] <= found["difference"] <= found["high"]
    assert found["high"] - found["low"] < alone["high"] - alone["low"]


def noises(*hits, of=1.0):
    return AuditCell(of * np.array(hits, float), np.full(len(hits), of), int(of * len(hits)))


def test_one_noise_has_a_reason_and_no_comparison_that_counts():
    one, many = noises(1), noises(1, 0, 0, 0, 0)
    for pair, exact in ((Pair(one, noises(0), 0.5), 1.0), (Pair(one, many, 0.5), 2 / 6)):
        for found in (
            compare_pair(pair, design(clustered=True), paired=False),
            compare_pairs([pair] * 2, design(clustered=True), paired=False),
        ):
            assert found["p_value"] == pytest.approx(exact) and np.isnan(found["p_distance"])
            assert np.isnan(found["low"]) and found["reason"] == "pictures of one noise"


def test_the_reference_may_be_a_table_and_rest_on_so_many(tmp_path):
    path = tmp_path / "world.csv"
    pd.DataFrame(
        {"profession": [*LEVELS, "judge"], "share": [0.87, 0.31, 0.1, 0.4], "n": [400, 300, 50, 9]}
    ).to_csv(path, index=False)
    shares, sizes = read_reference(path, "profession", LEVELS)
    assert shares == dict(zip(LEVELS, (0.87, 0.31, 0.1))) and sizes == dict(zip(LEVELS, (400, 300, 50)))
    levels = {"model": ("a",), "profession": LEVELS}
    own = Design("female", ("female", "male"), (), ("profession",), levels, shares, sizes)
    found = {("a", name): AuditCell(np.repeat([1.0, 0.0], [7, 3]), np.ones(10), 10) for name in LEVELS}
    rows = measure_cells(found, own)["shares"].set_index("profession")
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
        ("job,share\nnurse,0.5\n", "expected a column, got 'profession'"),
    ):
        path.write_text(text)
        with pytest.raises(UserError, match=message):
            read_reference(path, "profession", LEVELS)
