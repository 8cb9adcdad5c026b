"""Sampled traces of models of known structure: what is drawn, what is known without drawing, and what is counted."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from lab.validate.tracing import interplay
from lab.validate.tracing.interplay import SITES, Measured, chosen, claims, effects, interaction, page, rates
from probes.stages.trace.variants import KEYS_AND_VALUES, Variant

DOCS = Path(__file__).parents[4] / "docs" / "validation"
PLACES = (SITES[1], SITES[4])
# what the verdict is, by how much of the masculine word each of two places is given
WORLDS = {
    "redundant": lambda a, b: 9 * max(a, b),
    "only together": lambda a, b: 9 * min(a, b),
    "add up": lambda a, b: 5 * a + 4 * b,
}


def table(world, prompts=24, seed=0):
    """Verdicts and changes of images as `measured` gives them; the reference is as feminine."""
    rng, rows = np.random.default_rng(seed), []
    strength = 1 + 0.3 * rng.normal(size=prompts)
    level = {"neutral": 0.0, "feminine": 0.0, "masculine": 1.0}
    for one in interplay.variants(PLACES, 5):
        given = [level[one.donor if site in one.sites else one.recipient] for site in PLACES]
        for triplet in range(prompts):
            value = strength[triplet] * WORLDS[world](*given) + 0.3 * rng.normal()
            change = 0.0 if given == [level[one.recipient]] * 2 else 5.0
            if one.kind == "none":
                change = 0.0 if one.recipient == "neutral" else 10.0
            row = {"triplet": triplet, "variant": one.name, "verdict": value, "change": change}
            rows.append(row)
    return pd.DataFrame(rows)


def test_the_places_of_a_model_and_what_is_drawn_of_it():
    assert interplay.places_of("toyworld-both") == (SITES[1], SITES[4])
    assert len(interplay.places_of("toyworld-distributed")) == 5 and interplay.places_of("toyworld-cross-4")
    names = [one.name for one in interplay.variants(PLACES, 5)]
    assert len(names) == len(set(names)) == 3 + 4 * 2  # both at once are the donor's image
    assert len(interplay.variants(SITES[:5], 5)) == 3 + 4 * (5 + 10)
    assert len(interplay.variants(SITES[:1], 5)) == 3


def test_what_is_not_drawn_is_known():
    """Images of one prompt in one step: all places at once are the donor's, other attentions change nothing."""
    pipe, places = interplay._loaded("toyworld-both"), interplay.places_of("toyworld-both")
    others = [site for site in SITES if site not in places]
    whole = [
        Variant(
            f"{recipient}<{donor}:{sites[0]}",
            "site",
            recipient,
            donor,
            sites=sites,
            part=KEYS_AND_VALUES,
            stop_step=1,
        )
        for recipient, donor in (("neutral", "masculine"), ("feminine", "neutral"))
        for sites in (places, SITES, *((site,) for site in others))
    ]
    plain = [one for one in interplay.variants(places, 1) if one.kind == "none"]
    drawn = interplay.drawn(pipe, 0, ["a {person} with a dog"], [*plain, *whole], 1)
    found = drawn.set_index("variant")
    for one in whole:
        same = one.donor if len(one.sites) > 1 else one.recipient
        assert found["verdict"][one.name] == pytest.approx(found["verdict"][f"none:{same}"], abs=1e-3)
        assert (found["change"][one.name] > 0.1) == (len(one.sites) > 1)


def test_traces_find_what_places_do_together():
    for world in ("redundant", "only together"):
        some = Measured.of(table(world), PLACES)
        assert chosen(some) == [PLACES]
        found = rates(some, world, traces=6)
        assert found["said"][world] == 6 == found["as_expected"] and found["pairs_drawn"] == 1.0
        assert found["levelled"] <= stats.binom.ppf(0.999, 6, 0.05)
    found = rates(Measured.of(table("add up"), PLACES), None, traces=6)
    assert found["as_expected"] is None and sum(found["said"].values()) <= stats.binom.ppf(0.999, 12, 0.05)


def test_shares_of_a_pair_by_hand():
    rows = table("redundant")
    some = Measured.of(rows, PLACES)
    mean = rows.groupby("variant")["verdict"].mean()
    total = mean["none:masculine"] - mean["none:feminine"]
    into = mean[f"{PLACES[0]}:masculine>neutral"] - mean[f"{PLACES[0]}:feminine>neutral"]
    out = mean["none:masculine"] - mean[f"{PLACES[1]}:neutral>masculine"]
    out -= mean["none:feminine"] - mean[f"{PLACES[1]}:neutral>feminine"]
    found = interaction(some, PLACES)
    assert found["sufficiency_first"] == pytest.approx(into / total, abs=1e-3)
    assert found["necessity_second"] == pytest.approx(out / total, abs=1e-3)
    assert found["sufficiency_both"] == 1.0


def test_levelled_places_add_up_on_average():
    some = Measured.of(table("redundant"), PLACES).levelled()
    for word in ("feminine", "masculine"):
        for recipient, donor in (("neutral", word), (word, "neutral")):
            alone = sum(some.patched[(site,), recipient, donor] - some.plain[recipient] for site in PLACES)
            both = some.patched[PLACES, recipient, donor] - some.plain[recipient]
            assert np.mean(both - alone) == pytest.approx(0, abs=1e-9) and np.std(both - alone) > 0.1
    assert claims(effects(some, [PLACES])).keys() <= {interplay.OF_ALL}


def test_the_page_is_made_of_what_is_stored():
    stored = json.loads((DOCS / "trace_interplay.json").read_text(encoding="utf-8"))
    assert page(stored) == (DOCS / "trace_interplay.md").read_text(encoding="utf-8")
    assert all(one["traces"] >= 100 for one in stored.values())
