"""What is planned of a triplet: counts worked by hand, and every subset that a Shapley value needs."""

from dataclasses import replace
from itertools import combinations, permutations

import pytest

from probes.config.schema import Trace
from probes.errors import UserError
from probes.stages.trace.batching import computed, cut, rows, smallest
from probes.stages.trace.variants import CUTS, PatchSites, TraceWords, Variant, images, plan

CROSS = ("unet.down.0.attn.0.cross", "unet.mid.attn.0.cross", "unet.up.0.attn.0.cross")
WORDS = TraceWords("neutral", ("feminine", "masculine"), ("human",))
PLACES = PatchSites(CROSS, CROSS, {}, ("text.layers.0", "text.layers.1"), 10)


def kinds(variants):
    return {kind: [one for one in variants if one.kind == kind] for kind in {one.kind for one in variants}}


def test_the_default_trace():
    """By hand: 4 unpatched; of 2 donors, a control, and the reference into 2 words 3 sites, 1 complete, 5 points; 3
    cuts a donor, the self patch.
    """
    variants = plan(WORDS, PLACES, Trace()).variants
    assert {kind: len(some) for kind, some in kinds(variants).items()} == {
        "none": 4,
        "site": 15,
        "complete": 5,
        "curve": 25,
        "cut": 7,
    }
    assert len({one.name for one in variants}) == len(variants)
    # the curve at 0 and the complete cut are the image of "complete", drawn once
    assert images(variants) == len(variants) - 5 - 2
    assert [one.first_step for one in variants if one.kind == "curve"][:5] == [0, 2, 4, 6, 8]
    assert {one.donor for one in variants if one.floor} == {"human"}
    assert {one.name.split(":")[1] for one in variants if one.kind == "cut"} == set(CUTS) - {"inputs"}


def test_a_trace_without_necessity_has_17_variants_a_donor():
    seven = tuple(f"unet.up.{number}.attn.0.cross" for number in range(7))
    variants = plan(
        TraceWords("n", ("f", "m")),
        PatchSites(seven, seven, {}, ("text.layers.0",), 30),
        Trace(necessity=False),
    ).variants
    assert (
        sum(one.donor == "f" or one.donor == "n" for one in variants) == 17
    )  # one of them the self patch, for both


def test_subsets_of_channels_are_every_one_of_each_word():
    channels = ("text.pooled", "text.embeddings", "text_2.embeddings")
    found = kinds(plan(WORDS, replace(PLACES, channels=channels), Trace(channels=True)).variants)["channels"]
    sets = [some for size in (1, 2, 3) for some in combinations(channels, size)]
    assert [one.sites for one in found] == 2 * sets and {one.part for one in found} == {"channel"}
    assert [(one.donor, one.recipient) for one in found[:: len(sets)]] == [
        ("feminine", "neutral"),
        ("masculine", "neutral"),
    ]
    assert all(one.in_text and one.begins == 0 for one in found)


def test_what_is_asked_for():
    asked = Trace(
        windows=[[0, 3], [3, 10]], heads=[CROSS[1]], positions=["word", "end"], necessity=True, cuts=False
    )
    places = replace(PLACES, heads={CROSS[1]: 4})
    found = kinds(plan(TraceWords("n", ("f", "m")), places, asked).variants)
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


def test_equal_windows_divide_the_steps():
    found = kinds(plan(WORDS, PLACES, Trace(windows=3, floor=False, necessity=False)).variants)["window"]
    assert [(one.first_step, one.stop_step) for one in found[:9:3]] == [(0, 3), (3, 7), (7, 10)]
    many = kinds(plan(WORDS, PLACES, Trace(windows=99, floor=False, necessity=False)).variants)["window"]
    assert len(many) == 2 * 3 * 10


def test_pairs_of_places():
    """Of 3 sites 3 pairs, each for 2 donors both ways and the control; a listed pair in the order of the sweep."""
    found = kinds(plan(WORDS, PLACES, Trace(pairs="all")).variants)["pair"]
    assert len(found) == 3 * 5 and {one.sites for one in found} == set(combinations(CROSS, 2))
    assert {one.part for one in found} == {"key+value"} and {one.stop_step for one in found} == {10}
    one = kinds(plan(WORDS, PLACES, Trace(pairs=[[CROSS[2], CROSS[0]]])).variants)["pair"]
    assert {row.sites for row in one} == {(CROSS[0], CROSS[2])} and len(one) == 5


@pytest.mark.parametrize(
    ("sites", "pairs", "message"),
    [
        (
            CROSS,
            [[CROSS[0], "unet.mid"]],
            "trace.pairs: expected addresses of trace.sites such as .*, got 'unet.mid'",
        ),
        ((*CROSS, "unet.mid"), [[CROSS[0], "unet.mid"]], "trace.pairs: expected two sites of one part, got"),
        (
            tuple(f"unet.up.{number}.attn.0.cross" for number in range(11)),
            "all",
            "at most 10 sites for every pair",
        ),
    ],
)
def test_pairs_that_cannot_be_patched(sites, pairs, message):
    with pytest.raises(UserError, match=message):
        plan(WORDS, replace(PLACES, sites=sites), Trace(pairs=pairs))


def test_every_subset_and_every_prefix():
    exact = kinds(plan(WORDS, PLACES, Trace(shapley="exact")).variants)["subset"]
    assert len(exact) == 2 * (2**3 - 1) and exact[-1].sites == CROSS
    some = plan(WORDS, PLACES, Trace(shapley=4), seed=1)
    assert len(some.permutations) == 4 and some.permutations[1] == some.permutations[0][::-1]
    assert set(some.permutations) <= set(permutations(range(3)))
    there = {frozenset(one.sites) for one in some.variants if one.kind == "subset"}
    for order in some.permutations:
        for size in (1, 2, 3):
            assert frozenset(CROSS[index] for index in order[:size]) in there
    assert (
        plan(WORDS, PLACES, Trace(shapley=4), seed=1) == some != plan(WORDS, PLACES, Trace(shapley=4), seed=2)
    )


def test_sites_that_are_no_attentions_have_one_part():
    places = PatchSites(CROSS, ("text.layers.0", "unet.mid", "unet.mid.attn.0.self", CROSS[0]), {}, (), 10)
    found = plan(
        TraceWords("n", ("f",)), places, Trace(source="local", cuts=False, curve=0, necessity=False)
    ).variants
    assert [(one.part, one.source) for one in found if one.kind == "site"] == [
        ("text", "own"),
        ("output", "local"),
        ("key+value", "local"),
        ("key+value", "own"),  # of cross-attention they depend on the text alone
    ]


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ({"curve": [0, 10]}, "trace.curve: expected steps below 10, the calls of the U-Net, got 10"),
        ({"windows": [[2, 11]]}, "trace.windows: expected steps below 10, the calls of the U-Net, got 10"),
    ],
)
def test_steps_that_are_not_there(over, message):
    with pytest.raises(UserError, match=message):
        plan(WORDS, PLACES, Trace(**over))
    eleven = tuple(f"unet.up.{number}.attn.0.cross" for number in range(11))
    with pytest.raises(UserError, match="at most 10 attentions for every subset, got 11"):
        plan(WORDS, PatchSites(eleven, eleven, {}, (), 10), Trace(shapley="exact"))


@pytest.mark.parametrize("size", [3, 5, 11, 100])
def test_batches_hold_recipients_and_donors_and_every_variant_once(size):
    whole = plan(WORDS, PLACES, Trace(necessity=True))
    triplets = ["first", "second", "third"]
    batches = cut(triplets, whole, size)
    drawn = [(triplet, one.name) for batch in batches for triplet in batch.draws for one in batch.variants]
    assert sorted(drawn) == sorted((triplet, one.name) for triplet in triplets for one in whole.variants)
    assert all(batch.images <= size for batch in batches) and smallest(whole) == 3
    for batch in batches:
        there = rows(batch.variants)
        for one in batch.variants:
            for name in (one.recipient, one.donor):
                assert name is None or Variant("", "none", name).drawn in there


def test_images_that_are_computed():
    """By hand: of 10 calls a point at step 5 takes half an image; local donors a second pass of the batch."""
    whole = plan(TraceWords("n", ("f",)), PLACES, Trace(curve=[5], cuts=False, necessity=False))
    assert computed(whole, 100) == pytest.approx(2 + 3 + 1 + 0.5)
    local = plan(
        TraceWords("n", ("f",)),
        PLACES,
        Trace(curve=[5], cuts=False, necessity=False, part="heads", source="local"),
    )
    assert computed(local, 100) == pytest.approx(2 * (2 + 3 + 1 + 0.5))
