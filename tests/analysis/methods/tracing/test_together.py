"""Two wired places that oppose each other, are redundant, or need each other: tables and what the section says."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.methods.tracing.effects import effects as traced_effects
from analysis.methods.tracing.effects import variant_table
from analysis.methods.tracing.findings import interplay, spanned
from analysis.methods.tracing.method import METHOD
from analysis.methods.tracing.shares import share_table, total_table
from analysis.report.section import sentences
from analysis.tables.spec import Measured
from lab.validate.statistics.traces import OPPOSING, TWO_PLACES, two_place_effects
from probes.config.schema import Config
from probes.stages.trace.variants import Variant

SAMPLING = {"level": 0.95, "resamples": 400, "seed": 0}
CONFIG = Config.model_validate(
    {
        "model": "toyworld",
        "indicators": {"neutral": "person", "feminine": "woman", "masculine": "man"},
        "contrasts": [["masculine", "feminine"]],
        "prompts": ["a {person}"],
    }
)


def effects(world, seed=0):
    return two_place_effects(world, np.random.default_rng(seed))


def tables(traced):
    shares = share_table([traced], ("site", "complete"), SAMPLING)
    return {"trace_total": total_table([traced], SAMPLING), "trace_shares": shares}


def said(made):
    tables = {name: table.assign(model="toyworld") for name, table in made.items()}
    shown = Measured(METHOD, {"toyworld": SimpleNamespace(config=CONFIG)}, tables)
    return [line for spec in METHOD.tables for line in sentences(shown, spec)]


def both(made, kind, estimand):
    table = made["trace_shares"]
    chosen = (
        (table["donor"] == "masculine-feminine") & (table["kind"] == kind) & (table["estimand"] == estimand)
    )
    return table[chosen].reset_index(drop=True)


def interactions(made):
    rows = {name: both(made, "interaction", name) for name in ("sufficiency", "necessity")}
    return {name: row.iloc[0].to_dict() for name, row in rows.items() if len(row)}


def test_opposing_places_are_ranked_by_their_effects_and_said_to_oppose(monkeypatch):
    monkeypatch.setitem(TWO_PLACES, OPPOSING, lambda a, b: 21.2 * a - 22.0 * b)
    traced = effects(OPPOSING, seed=2)
    made = tables(traced)
    assert made["trace_total"]["p_value"][0] > 0.05
    sites = both(made, "site", "sufficiency")
    assert sites["share"].isna().all()
    # the mean effect by hand, and an interval of all places no shorter than Student's of one
    moved = traced.of("sufficiency", "masculine-feminine", [traced.places.index[1]])[:, 0]
    assert sites["effect"].iloc[0] == pytest.approx(moved.mean())
    student = stats.t.interval(0.95, 23, moved.mean(), stats.sem(moved))
    assert sites["effect_low"].iloc[0] < student[0] and student[1] < sites["effect_high"].iloc[0]
    assert (sites["p_adjusted"] < 0.05).tolist() == [True, True, False]
    texts = said(made)
    assert texts[0].endswith("there are no shares of it.")
    assert texts[1].startswith("By what each place alone moves the verdict, the first 3 of 3 are mid · attn ")
    assert texts[2].startswith("Places oppose each other: mid · attn 0 · cross moves the verdict by +2")
    assert "mid · attn 1 · cross by −2" in texts[2] and "not say that nothing is decided" in texts[2]


@pytest.mark.parametrize(
    ("world", "words"),
    [
        ("redundant", "Places are redundant: one can stand for another"),
        ("dependent", "Places need one another"),
        ("apart", ""),
    ],
)
def test_places_that_depend_on_one_another_are_said_to(world, words):
    made = tables(effects(world))
    rows = interactions(made)
    for estimand, row in rows.items():  # all at once is 1, and the sums by hand
        total = both(made, "site", estimand)["share"].sum()
        assert row["share"] == pytest.approx(1 - total, abs=0.05)
    assert interplay(rows, 0.05) == (world if words else "")
    assert words in str(said(made)) and ("Patched all at once" in str(said(made))) == bool(words)


def test_places_that_were_not_all_patched_have_no_interaction():
    traced = effects("redundant")
    made = tables(replace(traced, places=traced.places.drop(traced.places.index[1])))
    assert not interactions(made) and interplay({}, 0.05) == "" and len(said(made)) == 2


def test_an_interval_without_an_end_is_written_so():
    assert spanned({"share": 0.2, "low": -np.inf, "high": 0.5}, "share") == "0.20 (−∞, 0.50]"
    assert spanned({"share": 0.2, "low": np.nan, "high": np.nan}, "share") == "0.20"


def test_both_words_together_need_no_image_of_the_reference():
    words = ("neutral", "feminine", "masculine")
    variants = [Variant(word, "none", word) for word in words]
    variants += [
        replace(Variant(f"{word}>neutral", "site", "neutral", word), sites=("a",)) for word in words[1:]
    ]
    values = [np.nan, 0.0, 4.0, 1.0, 3.0]  # the reference's own image is at fault
    rows = pd.DataFrame({"variant": [one.name for one in variants], "value": values}).assign(
        triplet="t", seed=0
    )
    table = variant_table(pd.DataFrame([one.row() for one in variants]))
    rows = rows.assign(outcome="verdict", version="made up")
    (traced,) = traced_effects(table, rows, "neutral", ("masculine", "feminine"))
    place = table["place"].iloc[-1]
    known = {donor: traced.of("sufficiency", donor, [place]).item() for donor in traced.donors}
    assert known["masculine-feminine"] == 2.0 and np.isnan([known[word] for word in words[1:]]).all()
    assert traced.totals["masculine-feminine"].item() == 4.0
