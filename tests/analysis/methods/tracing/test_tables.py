"""Tables of a trace whose truth is known."""

import numpy as np
import pandas as pd
import pytest

from analysis.methods.tracing.cuts import cut_table
from analysis.methods.tracing.effects import WHAT, Effects
from analysis.methods.tracing.method import METHOD
from analysis.methods.tracing.shares import share_table
from tests.analysis.methods.tracing.conftest import PROMPTS
from tests.analysis.traced_parts import CROSS, Truth, deciding_step

BOTH = "masculine-feminine"


@pytest.fixture(scope="module")
def decided(run):
    """By hand: total effect of both words, a prompt each, and the step that decides it."""
    values = run.table("trace_outcomes").query("outcome == 'verdict'")
    wide = values.pivot_table(index="triplet", columns="variant", values="value")
    total = wide["none:masculine"] - wide["none:feminine"]
    return total.to_numpy(), np.array([deciding_step(Truth(), triplet) for triplet in wide.index])


def of(run, name, estimand, outcome="verdict", donor=BOTH):
    table = run.table(name)
    chosen = (table["outcome"] == outcome) & (table["donor"] == donor) & (table["estimand"] == estimand)
    return table[chosen].reset_index(drop=True)


def test_only_the_deciding_place_has_a_share(run):
    for estimand in ("sufficiency", "necessity", "floor", "beyond"):
        shares = of(run, "trace_shares", estimand).set_index(["kind", "site"])
        for site in CROSS:
            row = shares.loc["site", site]
            expected = float(site == CROSS[1] and estimand != "floor")
            assert row["share"] == expected and row["n_prompts"] == PROMPTS
            assert (row["p_adjusted"] < 0.05) == (expected == 1.0)
    complete = of(run, "trace_shares", "sufficiency").query("kind == 'complete'").iloc[0]
    assert complete["share"] == 1 and complete["reason"] == "the same share in every prompt"
    assert set(of(run, "trace_shares", "floor")["control"]) == {"individual"}


def test_windows_and_heads_are_shares_by_hand(run, decided):
    total, step = decided
    windows = of(run, "trace_windows", "sufficiency").set_index("site").loc[CROSS[1]]
    for _, row in windows.iterrows():
        inside = (row["first_step"] <= step) & (step < row["stop_step"])
        assert row["share"] == pytest.approx(total[inside].sum() / total.sum(), abs=1e-12)
    assert windows["share"].sum() == pytest.approx(1)
    assert of(run, "trace_heads", "sufficiency")["share"].tolist() == [0, 1]


def test_all_cuts_come_out(run):
    cuts = run.table("trace_cuts")
    assert set(cuts["cut"]) == {"embeddings", "complete", "before", "self"}
    assert cuts["holds"].all() and (cuts["deviation"] == 0).all()


def test_a_trace_without_cuts_has_no_table_of_them():
    variants = pd.DataFrame({"kind": ["none"], "variant": ["none:neutral"]})
    assert cut_table([], variants, {}).empty


def test_the_words_effects_add_up_to_that_of_both(run, decided):
    total = run.table("trace_total").query("outcome == 'verdict'").set_index("donor")
    assert total.loc[BOTH, "total"] == pytest.approx(decided[0].mean())
    parts = total.loc["masculine", "total"] - total.loc["feminine", "total"]
    assert total.loc[BOTH, "total"] == pytest.approx(parts)
    assert total.loc["human", "control"] and total.loc["human", "total"] == 0


def test_the_tables_are_those_of_the_registry(run):
    assert set(run.tables()) == {table.name for table in METHOD.tables}
    for name in run.tables():  # `write` holds columns against it
        assert run.table(name)["version"].str.contains("/").all()


@pytest.mark.parametrize(("control", "shift"), [((), 5.0), (("human",), 5.0), (("human",), 0.0)])
def test_beside_a_significant_p_no_interval_holds_0(control, shift):
    """Effects that follow those of a synonym, so that their margin is told from 0 where they themselves are not."""
    rng, shape = np.random.default_rng(1), (16, 40)
    noise, means = rng.normal(0, 1, shape), [3.0] * 5 + [0.4] * 35
    moved = {("sufficiency", name): noise for name in control}
    moved |= {("sufficiency", "masculine"): noise + rng.normal(means, 0.3, shape)}
    moved |= {("necessity", "masculine"): rng.normal(means, 1, shape)}
    patches = pd.concat({key: pd.DataFrame(values) for key, values in moved.items()}, axis=1)
    totals = pd.DataFrame({"masculine": rng.normal(shift, 1, 16)})
    places = pd.DataFrame(dict.fromkeys(WHAT), index=range(40)).assign(kind="site", site="a")
    traced = [Effects("verdict", "1", ["masculine"], control, totals, patches, places)]
    table = share_table(traced, ["site"], {"level": 0.95, "resamples": 200, "seed": 0})
    told = table["p_adjusted"] < 0.05
    assert set(table["estimand"][told]) >= {"beyond" if control else "sufficiency", "necessity"}
    for low, high in (("low", "high"), ("effect_low", "effect_high")):
        assert not (told & (table[low] <= 0) & (table[high] >= 0)).any()
    others = table[
        ~told & (table["estimand"] == "beyond") & table["low"].notna()
    ]  # and beside another one it does
    assert (others["low"] <= 0).all() and (others["high"] >= 0).all()
