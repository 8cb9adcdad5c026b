"""What is planned of a triplet: counts worked by hand."""

from dataclasses import replace

import pytest

from probes.config.schema import Trace
from probes.stages.trace.stage import TraceBatch, split_batch
from probes.stages.trace.variants import PatchSites, Variant, distinct_images, plan

CROSS = ("unet.down.0.attn.0.cross", "unet.mid.attn.0.cross", "unet.up.0.attn.0.cross")
WORDS = "neutral", ("feminine", "masculine"), ("human",)
PLACES = PatchSites(CROSS, CROSS, {}, ("text.layers.0", "text.layers.1"), 10)


def kinds(variants):
    return {kind: [one for one in variants if one.kind == kind] for kind in {one.kind for one in variants}}


def test_what_is_asked_for():
    asked = Trace(
        windows=[[0, 3], [3, 10]], heads=[CROSS[1]], positions=["word", "end"], necessity=True, cuts=False
    )
    places = replace(PLACES, heads={CROSS[1]: 4})
    found = kinds(plan(places, asked, "n", ("f", "m")))
    pairs = 4  # two donors, both directions
    assert len(found["window"]) == pairs * 3 * 2 and {
        (one.first_step, one.stop_step) for one in found["window"]
    } == {
        (0, 3),
        (3, 10),
    }
    assert [one.heads for one in found["head"]] == [(head,) for _ in range(pairs) for head in range(4)]
    assert len(found["position"]) == pairs * 2 and "cut" not in found
    assert {(one.recipient, one.donor) for one in found["site"]} == {
        ("n", "f"),
        ("n", "m"),
        ("f", "n"),
        ("m", "n"),
    }


@pytest.mark.parametrize("size", [3, 5, 11, 100])
def test_batches_hold_recipients_and_donors_and_every_variant_once(size):
    whole = plan(PLACES, Trace(necessity=True), *WORDS)
    triplets = ["first", "second", "third"]
    batches = split_batch(TraceBatch(triplets, whole), size)
    generated = [
        (triplet, one.name) for batch in batches for triplet in batch.triplets for one in batch.variants
    ]
    assert sorted(generated) == sorted((triplet, one.name) for triplet in triplets for one in whole)
    assert (
        all(len(batch) <= size for batch in batches)
        and max(len(distinct_images([one])) for one in whole) == 3
    )
    for batch in batches:
        there = distinct_images(batch.variants)
        for one in batch.variants:
            for name in (one.recipient, one.donor):
                assert name is None or Variant("", "none", name).image_key in there
