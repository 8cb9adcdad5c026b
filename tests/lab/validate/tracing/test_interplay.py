"""Sampled traces of structures: what is counted, by worlds whose places act together in a known way."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from lab.validate.tracing import interplay
from lab.validate.tracing.interplay import PlaceEffects, claims, effects, page, rates, says_of_pair, shares_of
from probes.config.trace_options import Trace
from probes.stages.trace import stage, top_places
from probes.stages.trace.draw import draw
from probes.stages.trace.patch_sites import PatchSites
from probes.stages.trace.triplet_draw import TripletDraw
from probes.stages.trace.variants import TraceWords
from probes.toyworld.structures.truth import structures

DOCS = Path(__file__).parents[4] / "docs" / "validation"
SITES = ("unet.down.1.attn.0.cross", "unet.mid.attn.0.cross", "unet.up.1.attn.0.cross")
# of the total effect: what the first and the last place are enough for, and what they are needed for
WORLDS = {
    "redundant": ((1, 1), (0, 0)),
    "only together": ((0, 0), (1, 1)),
    "series": ((1, 1), (1, 1)),
    "add up": ((0.6, 0.4), (0.6, 0.4)),
}


def entry(world, prompts=24, noise=0.3, seed=0):
    """An entry of ``structures.json``."""
    rng = np.random.default_rng(seed)
    total = 9 * (1 + 0.3 * rng.normal(size=prompts))

    def of(shares):
        columns = [share * total + noise * rng.normal(size=prompts) for share in (shares[0], 0, shares[1])]
        return np.column_stack(columns).tolist()

    enough, needed = WORLDS[world]
    parts = np.column_stack([total / 2, total * 0, total / 2]).tolist()
    methods = {"sufficiency": of(enough), "necessity": of(needed), "shapley": parts}
    return {"sites": SITES, "seeds": 2, "steps": 5, "methods": methods}


def some(world, **options):
    return PlaceEffects.of(entry(world, **options), SITES[::2])


ALONE, BOTH = [[SITES[0]], [SITES[2]]], [[SITES[0], SITES[2]]]


@pytest.mark.parametrize(
    ("world", "enough", "needed"),
    [("redundant", ALONE, BOTH), ("only together", BOTH, ALONE), ("series", ALONE, ALONE)],
)
def test_traces_find_what_places_do_together(world, enough, needed):
    found = rates(some(world), world, {"sufficiency": enough, "necessity": needed}, traces=5)
    assert found["sets"] == {"sufficiency": 5, "necessity": 5}
    wrong = rates(some(world), world, {"sufficiency": [[SITES[1]]], "necessity": []}, traces=2)
    assert wrong["sets"] == {"sufficiency": 0, "necessity": None}
    assert found["said"] == {world: 5} and found["as_expected"] == 5
    assert found["levelled"] <= stats.binom.ppf(0.999, 5, 0.05)


def test_nothing_is_said_of_places_that_add_up():
    found = rates(some("add up"), None, {}, traces=5)
    assert found["as_expected"] is None and sum(found["said"].values()) <= stats.binom.ppf(0.999, 5, 0.05)


def test_effects_are_those_of_the_entry():
    values = some("redundant")
    traced = effects(values)
    assert traced.donors == ("masculine-feminine",) and traced.total(traced.both) == pytest.approx(
        values.total
    )
    site, pair = traced.places(["site"])[2], traced.places(["pair"])[0]
    assert traced.sufficiency(site, traced.both) == pytest.approx(values.enough[:, 2])
    assert traced.necessity(site, traced.both) == pytest.approx(values.needed[:, 2])
    for name in ("sufficiency", "necessity"):
        assert getattr(traced, name)(pair, traced.both) == pytest.approx(values.total)
    assert values.of_prompts(np.array([3, 3])).needed[:, 0].tolist() == [values.needed[3, 0]] * 2


def test_levelled_places_add_up_on_average():
    level = some("redundant").levelled()
    assert np.mean(level.enough_both - level.enough[:, [0, 2]].sum(1)) == pytest.approx(0, abs=1e-9)
    assert np.mean(level.needed_both - level.needed[:, [0, 2]].sum(1)) == pytest.approx(0, abs=1e-9)
    assert not says_of_pair(effects(level)) and says_of_pair(effects(some("redundant")))


def test_opposing_places():
    values = some("redundant")
    against = PlaceEffects(
        values.sites,
        values.pair,
        values.total * 0 + 0.1,
        values.enough * [1, 0, -1],
        values.needed,
        *[values.total * 0] * 2,
    )
    assert claims(effects(against), shares_of(effects(against)))["opposing"] == "opposing"


@pytest.mark.parametrize("model", ["toyworld-redundant", "toyworld-cross-4"])
def test_a_pilot_pairs_the_places_that_change_an_image(model):
    """One prompt in one step: of a structure both places; of one place no pair."""
    from probes.models import loading

    pipe = loading.load(loading.resolve(model), device="cpu").pipe
    words = {"neutral": "person", "feminine": "woman", "masculine": "man"}
    prompts = {name: f"a {word} with a dog" for name, word in words.items()}
    triplet = TripletDraw.of_texts(pipe, prompts, words)
    sites = tuple(f"unet.{block}.cross" for block in ("down.1.attn.0", "up.1.attn.0", "up.1.attn.1"))
    places = PatchSites(sites, sites, {}, (), 1)
    pilot = top_places.pilot(TraceWords("neutral", ("feminine", "masculine")), places, Trace())
    drawn = draw(pipe, [triplet], pilot.variants, steps=1)
    found = top_places.pairs_of([stage._row(one) for one in drawn], pilot, "neutral")
    assert found == ([structures()[model].sites] if model in structures() else [])


def test_the_page_is_made_of_what_is_stored():
    stored = json.loads((DOCS / "trace_interplay.json").read_text(encoding="utf-8"))
    assert page(stored) == (DOCS / "trace_interplay.md").read_text(encoding="utf-8")
    assert all(one["traces"] == interplay.TRACES for one in stored.values())
