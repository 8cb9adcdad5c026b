"""A machine reader beside labels: confusions, corrected shares, and labels that were not given at random."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix
from statsmodels.stats.proportion import proportion_confint

import triptych
from analysis.methods.audit.page import render
from analysis.methods.audit.reader import chosen_whatever_is_read
from analysis.stats.prediction_powered import powered_shares
from tests.analysis.methods.audit.pictures import table_of, write_pictures

COUNTS = {
    (model, profession, setting): numbers
    for model in ("a", "b")
    for profession, numbers in (("nurse", (24, 4, 2)), ("CEO", (6, 22, 2)))
    for setting in ("baseline", "diverse")
}
OTHER = {"female": "male", "male": "female", "both": "both"}


def with_reader(table, rng, right=0.85):
    wrong = rng.random(len(table)) > right
    return table.assign(blip=table["read_as"].where(~wrong, table["read_as"].map(OTHER)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    write_pictures(folder, table_of(COUNTS))
    return folder


@pytest.fixture(scope="module")
def whole():
    return with_reader(table_of(COUNTS), np.random.default_rng(0))


@pytest.fixture(scope="module")
def table(whole):
    """Two in five pictures of each cell labelled, at random."""
    lots = np.random.default_rng(1).random(len(whole))
    order = whole.assign(lots=lots).groupby(["model", "profession", "setting"])["lots"].rank()
    return whole.assign(read_as=whole["read_as"].where(order <= 12, ""))


@pytest.fixture(scope="module")
def audit(folder, table):
    return triptych.audit(folder, table, reader="blip", resamples=50, permutations=200)


def test_confusions_are_those_of_scikit_learn(audit, table):
    labelled = table[table["read_as"] != ""].replace({"both": "undecided"})
    names = ["female", "male", "undecided"]
    for by, group, own in [
        ("all", "all", labelled),
        ("model", "b", labelled[labelled["model"] == "b"]),
        ("profession", "CEO", labelled[labelled["profession"] == "CEO"]),
    ]:
        expected = confusion_matrix(own["read_as"], own["blip"], labels=names)
        rows = audit.confusions[(audit.confusions["by"] == by) & (audit.confusions["group"] == group)]
        found = rows.pivot(index="label", columns="reading", values="count").loc[names, names]
        np.testing.assert_array_equal(found, expected)
        for row in rows.itertuples():
            ends = proportion_confint(row.count, row.of, method="wilson")
            assert (row.low, row.high) == pytest.approx(ends, abs=1e-12)


def test_corrected_shares_are_those_of_their_cells(audit, table):
    cells = list(table.groupby(["model", "profession", "setting"], sort=False))
    labels = np.full((len(cells), 30, 2), np.nan)
    readings = np.array([[(own["blip"] == "female"), own["blip"] != "both"] for _, own in cells], float)
    for place, (_, own) in enumerate(cells):
        known = (own["read_as"] != "").to_numpy()
        said = own["read_as"][known]
        labels[place, known] = np.array([said == "female", said != "both"], float).T
    expected = powered_shares(labels, readings.swapaxes(1, 2))
    found = audit.corrected.set_index(["model", "profession", "setting"])
    for place, (key, own) in enumerate(cells):
        row = found.loc[key]
        assert row["share"] == pytest.approx(expected.share[place], abs=1e-12)
        assert (row["low"], row["high"]) == pytest.approx((expected.low[place], expected.high[place]))
        decided = own["blip"].isin(["female", "male"])
        assert row["share_reader"] == (own["blip"] == "female").sum() / decided.sum()
        assert (row["pictures"], row["labelled"]) == (30, 12)
    same = audit.shares.set_index(["model", "profession", "setting"])["share"]
    assert same.to_dict() == pytest.approx(found["share_labels"].to_dict())


def test_pictures_that_people_did_not_label_count_in_the_section_of_the_machine_alone(audit):
    assert (audit.shares["pictures"] == 12).all() and len(audit.pictures) == 240
    page = render(audit, 0)
    assert 'id="reader"' in page and "144 without a label, read by blip alone" in page
    assert "144 read by blip alone" in repr(audit)
    assert re.search(r"blip reads \d+ of \d+ pictures that people read as female as female\.", repr(audit))
    assert "may leave shares wrong" not in repr(audit)


def test_labels_that_depend_on_what_is_read_are_said(folder, whole):
    seldom = (whole["blip"] == "female") & (whole.index % 4 != 0)
    chosen = whole.assign(read_as=whole["read_as"].where(~seldom, ""))
    audit = triptych.audit(folder, chosen, reader="blip", resamples=50, permutations=200)
    assert (audit.corrected["p_labelled"] < 0.001).all()
    assert "a: whether a picture is labelled depends on what blip reads in it (p < 0.001)" in repr(audit)
    assert np.isnan(chosen_whatever_is_read(audit.pictures[audit.pictures["answer"] != ""], audit.design))


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {"reader": "blp"}, "--reader: .*did you mean blip"),
        ({"blip": "woman"}, {"reader": "blip"}, "blip: expected readings among female, male, got woman"),
    ],
)
def test_what_cannot_be_corrected_is_one_line(folder, table, change, options, message):
    with pytest.raises(triptych.UserError, match=message) as refused:
        triptych.audit(folder, table.assign(**change), **options)
    assert "\n" not in str(refused.value)
