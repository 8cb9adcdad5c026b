"""Audits of one word: a run without triplets and its labelled pictures say the same, beside the planted leans."""

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.proportion import proportion_confint

import triptych
from lab.train.work.measure import lean, verdict_rates
from lab.validate.dalleval import one_word
from probes.toyworld.world import load_world

NAMES = ("editor", "waiter")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    config = one_word.configuration(4, 2, 0)
    config["prompts"] = [one for one in config["prompts"] if one["profession"] in NAMES]
    return triptych.run(config, out=tmp_path_factory.mktemp("runs") / "run", progress=False)


def test_every_profession_is_asked_for_in_one_word():
    config = one_word.configuration(48, 20, 7)
    assert {one["profession"] for one in config["prompts"]} == set(load_world("toyworld-work").professions)
    assert "a person who works as an editor" in [one["text"] for one in config["prompts"]]
    assert "indicators" not in config and config["seeds"] == {"count": 48, "start": 7}


def test_both_ways_read_the_same_images(run, tmp_path):
    said = run.answers("gender").query("reader == 'toyworld-checker'")
    said = said.merge(run.samples[["sample_id", "triplet"]]).merge(run.table("prompts"))
    table, audit = one_word.of_table(run), one_word.of_audit(run, tmp_path / "pictures")
    for name in NAMES:
        own = said[(said["profession"] == name) & (said["reading"] != "")]["reading"] == "male"
        low, high = proportion_confint(own.sum(), len(own), method="wilson")
        for found in (table.loc[name], audit.loc[name]):
            assert list(found[["share", "low", "high"]]) == pytest.approx([own.mean(), low, high], abs=1e-9)


def test_an_interval_holds_where_that_of_the_corrected_lean_does():
    world, rng = load_world("toyworld-work"), np.random.default_rng(0)
    rates, rows, expected = verdict_rates(world), {}, []
    for name, one in world.professions.items():
        verdicts = np.where(rng.random(12) < one.lean, 1.0, -1.0)
        low, high = proportion_confint((verdicts > 0).sum(), 12, method="wilson")
        rows[name] = {"low": low, "high": high}
        said = lean(verdicts, rates)
        if said["low"] <= one.lean <= said["high"]:
            expected.append(name)
    assert one_word.held(pd.DataFrame(rows).T, rates) == expected and 0 < len(expected) <= 20
