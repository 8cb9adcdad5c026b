"""Traces of diffusion transformers: sites by kind of model, positions by text encoder, cuts, and patches by hand."""

import functools
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from hooks import Intervention, Patch
from hooks.architectures.registry import architecture_of
from hooks.architectures.text_encoders import JOINED
from probes.config.schema import Trace
from probes.errors import UserError
from probes.prompts.sample import TextTowers
from probes.stages.trace.patched_generation import generate_variants
from probes.stages.trace.requirements import patch_sites, require_positions
from probes.stages.trace.seeded_triplet import SeededTriplet
from probes.stages.trace.variants import CUTS, POOLED, plan
from tests.hooks.transformers import draw as generate
from tests.hooks.transformers import rows_of_prompts, tiers
from tests.tiny_transformers import ROWS, tiny_transformer_pipeline

STEPS = 2
WORD = {"neutral": "person", "feminine": "woman", "masculine": "man"}
TEXT = {name: f"a {word} holding an umbrella" for name, word in WORD.items()}
EVERY_CUT = {"embeddings", "inputs", "complete", "before", "self"}
KINDS = {  # cuts that each model has
    "sd3": EVERY_CUT,
    "flux-dev": EVERY_CUT,
    "auraflow": EVERY_CUT - {"before"},  # UMT5 reads both ways
    "pixart-sigma": {"inputs", "complete", "self"},  # its prompts are altered before they are read
    "sana": {"inputs", "complete", "self"},
    "qwen-image": {"inputs", "complete", "self"},
    "lumina2": {"inputs", "complete", "self"},
    "z-image": {"inputs", "complete", "self"},
}
pipeline = functools.cache(tiny_transformer_pipeline)


def traced(kind, trace, texts=TEXT):
    """Places and images by variant."""
    pipe = pipeline(kind)
    places = patch_sites(pipe, trace, STEPS)
    triplet = SeededTriplet.from_prompts(pipe, texts, WORD)
    variants = plan(places, trace, "neutral", ("feminine",))
    require_positions([triplet], places, variants)
    call = {"guidance_scale": 3.0 if architecture_of(pipe).layouts[0].guidance != "distilled" else None}
    size = ROWS[kind].size
    generated = generate_variants(pipe, [triplet], variants, steps=STEPS, height=size, width=size, **call)
    return places, {one.variant.name: one for one in generated}


def require_as_by_hand(found, row, kind, changed):
    """The image of a row against one that is generated within a context, and against that of no patch."""
    size, noise = ROWS[kind].size, [torch.Generator().manual_seed(row.triplet.noise_seed) for _ in range(2)]
    scale = {"guidance_scale": 3.0} if kind == "sd3" else {}
    texts = [TEXT["neutral"], TEXT["feminine"]]
    with changed:
        images = generate(pipeline(kind), kind, texts, generator=noise, height=size, width=size, **scale)
    np.testing.assert_allclose(row.image, images[0], rtol=0, atol=1e-5)
    assert np.abs(row.image - found["none:neutral"].image).max() > 1e-4


@pytest.mark.parametrize("kind", tiers(KINDS))
def test_cuts_have_the_share_that_they_must(kind):
    """The image is the donor's, or the recipient's, but for the order of sums."""
    asked = Trace(sites=["dit.in.text"], necessity=False, windows=[[1, 2]])
    places, found = traced(kind, asked)
    cuts = [one for one in found.values() if one.variant.kind == "cut"]
    assert {one.variant.name.split(":")[1] for one in cuts} == KINDS[kind]
    ends = [found[f"none:{name}"].image for name in ("neutral", "feminine")]
    rounding = np.abs(ends[1] - ends[0]).max() / 1000
    assert rounding > 0
    for one in cuts:
        expected = ends[int(CUTS[one.variant.name.split(":")[1]])]
        assert np.abs(one.image - expected).max() < rounding and one.writes > 0, one.variant.name
    later = found["window:dit.in.text:1-2:feminine>neutral"].image
    assert min(np.abs(later - end).max() for end in ends) > rounding / 10  # the last step is the smallest
    assert np.array_equal(
        found["complete:feminine>neutral"].image, found["cut:complete:feminine>neutral"].image
    )
    states = found[
        "site:dit.in.text:feminine>neutral"
    ].image  # all of the text, but where a pooled one enters, too
    assert (np.abs(states - ends[1]).max() > rounding) == (POOLED in places.inputs)


def test_by_default_the_pooled_text_comes_first_then_the_text_encoders_then_the_attentions():
    joint = [f"dit.block.{number}.joint" for number in range(3)]
    sd3 = patch_sites(pipeline("sd3"), Trace(), STEPS)
    towers = ["text.embeddings", "text_2.embeddings", "text_3.embeddings"]
    assert [*sd3.sites] == [POOLED, *towers, *joint] and [*sd3.text_paths] == [POOLED, *joint]
    assert sd3.inputs == (POOLED, "dit.in.text") and not sd3.masked
    flux = patch_sites(pipeline("flux-dev"), Trace(), STEPS)
    blocks, single = (
        [f"dit.block.{number}.joint" for number in range(2)],
        [f"dit.single.{number}.joint" for number in range(3)],
    )
    assert [*flux.sites] == [POOLED, *towers[:2], *blocks, *single] and [*flux.text_paths] == [
        POOLED,
        *blocks,
        *single,
    ]
    pixart = patch_sites(pipeline("pixart-sigma"), Trace(), STEPS)
    assert [*pixart.sites] == [*pixart.cross] == [f"dit.block.{number}.cross" for number in range(3)]
    assert pixart.masked and pixart.embeddings == () == pixart.layers


@pytest.mark.parametrize(
    ("kind", "trace", "message"),
    [
        (
            "sana",
            {"positions": ["word"]},
            "trace.positions: expected a model that gives its text encoder a prompt as",
        ),
        (
            "flux-dev",
            {"heads": ["dit.single.0.joint"]},
            "trace.heads: expected attentions such as dit.block.0.joint",
        ),
    ],
)
def test_what_cannot_be_traced(kind, trace, message):
    with pytest.raises(UserError, match=message):
        patch_sites(pipeline(kind), Trace(**trace), STEPS)


def test_a_word_stands_in_each_text_encoder_and_in_what_the_transformer_is_given():
    """By hand: CLIP's tokens begin with one for the start, T5's do not; T5's follow the 77 of CLIP."""
    triplet = SeededTriplet.from_prompts(
        pipeline("sd3"), {"neutral": "a person in a hat"}, {"neutral": "person"}
    )
    clip, t5 = (triplet.groups[name]["neutral"] for name in ("text", "text_3"))
    assert clip == triplet.groups["text_2"]["neutral"]
    assert (clip["start"], clip["before"], clip["word"], clip["after"], clip["end"]) == (
        (0,),
        (1,),
        (2,),
        (3, 4, 5),
        (6,),
    )
    assert (t5["start"], t5["before"], t5["word"], t5["after"], t5["end"]) == (
        (),
        (0,),
        (1,),
        (2, 3, 4),
        (5,),
    )
    joined = triplet.groups[JOINED]["neutral"]
    assert joined["word"] == (2, 78) and joined["end"] == (6, 82) and joined["start"] == (0,)
    assert joined["padding"] == (*range(7, 77), *range(83, 77 + 256))
    places = sorted(place for group in joined.values() for place in group)
    assert places == list(range(77 + 256))
    flux = SeededTriplet.from_prompts(
        pipeline("flux-dev"), {"neutral": "a person in a hat"}, {"neutral": "person"}
    )
    assert flux.groups[JOINED]["neutral"] == flux.groups["text_2"]["neutral"]
    assert flux.groups["text_2"]["neutral"]["word"] == (1,) and "text_3" not in flux.groups


def test_no_positions_of_a_word_at_two_places_or_in_a_template():
    towers = TextTowers.from_pipeline(pipeline("sd3"))
    sample = SimpleNamespace(
        **dict.fromkeys(("triplet", "seed", "noise_seed"), 0),
        indicator="neutral",
        prompt="a dog and a dog",
        tokens=(),
        indicator_positions=(2, 5),
        word_spans=((0, 1), (2, 5), (6, 9), (10, 11), (12, 15)),
        word_positions=((1,), (2,), (3,), (4,), (5,)),
    )
    found = SeededTriplet.from_samples([sample], towers).groups
    assert set(found) == {"text", "text_2", "text_3", JOINED}
    assert not any(groups["neutral"] for groups in found.values())
    assert TextTowers.from_pipeline(pipeline("sana")) is None


@pytest.mark.parametrize(
    ("kind", "name", "by_hand"),
    [
        (
            "sd3",
            "position:cross:word:feminine>neutral",
            [
                Patch(
                    f"dit.block.{block}.joint.text",
                    part=("key", "value"),
                    source=1,
                    into=0,
                    positions=[2, 78],
                )
                for block in range(3)
            ],
        ),
        (
            "flux-dev",
            "position:dit.single.0.text:word:feminine>neutral",
            [Patch("dit.single.0.text", source=1, into=0, positions=[1])],
        ),
        (
            "flux-dev",
            "window:dit.single.1.joint:1-2:feminine>neutral",
            [Patch("dit.single.1.joint.text", part=("key", "value"), source=1, into=0, steps=[1])],
        ),
        (
            "sd3",  # the last block, whose text is read and not asked
            "head:dit.block.2.joint:1:feminine>neutral",
            [Patch("dit.block.2.joint.text", part=("key", "value"), source=1, into=0, heads=[1])],
        ),
    ],
)
def test_a_row_is_what_the_same_patch_by_hand_draws(kind, name, by_hand):
    sites = ["text_3.embeddings"] if kind == "sd3" else ["dit.single.0.text", "dit.single.1.joint", POOLED]
    more = {"heads": ["dit.block.2.joint"]} if kind == "sd3" else {}
    asked = Trace(sites=sites, positions=["word"], windows=2, necessity=False, cuts=False, **more)
    _, found = traced(kind, asked)
    require_as_by_hand(found, found[name], kind, Intervention(pipeline(kind), by_hand))


@pytest.mark.parametrize(("kind", "word"), [("sd3", [2, 78]), ("flux-dev", [1])])
def test_the_rest_is_all_but_the_word_against_a_hook_of_torch(kind, word):
    """The word is one token of CLIP's 77 and one of T5's behind them; of FLUX.1 the transformer is given T5's alone."""
    asked = Trace(sites=["dit.in.text"], positions=["word", "rest"], necessity=False, cuts=False)
    _, found = traced(kind, asked)
    pipe = pipeline(kind)
    for group in ("word", "rest"):

        def swap(module, args, output, group=group):
            output = output.clone()
            rows = rows_of_prompts(pipe, output, 2)
            there = [place for place in range(output.shape[1]) if (place in word) == (group == "word")]
            rows[0, there] = rows[1, there]
            return output

        row = found[f"position:dit.in.text:{group}:feminine>neutral"]
        handle = pipe.transformer.context_embedder.register_forward_hook(swap)
        require_as_by_hand(found, row, kind, handle)


def test_attention_probabilities_are_those_over_both_streams():
    """Queries of the image and the keys of image and text; a patch of a row into itself changes nothing."""
    asked = Trace(sites=["dit.block.1.joint"], part="probabilities", necessity=False, cuts=False)
    _, found = traced("sd3", asked)
    row = found["site:dit.block.1.joint:feminine>neutral"]
    by_hand = [
        Patch("dit.block.1.joint", part=("query", "key"), source=1, into=0),
        Patch("dit.block.1.joint.text", part="key", source=1, into=0),
    ]
    require_as_by_hand(found, row, "sd3", Intervention(pipeline("sd3"), by_hand))


def test_texts_of_another_length_are_refused_where_the_rest_is_masked():
    texts = {**TEXT, "feminine": "a woman holding an umbrella in the park"}
    with pytest.raises(
        UserError, match="trace: expected prompts of as many tokens, since the transformer masks or pads"
    ):
        traced("pixart-sigma", Trace(), texts)
    _, found = traced("flux-dev", Trace(sites=[POOLED], necessity=False), texts)  # which masks nothing
    whole = np.abs(found["complete:feminine>neutral"].image - found["none:feminine"].image).max()
    assert whole < np.abs(found["none:neutral"].image - found["none:feminine"].image).max() / 1000
    assert not any("embeddings" in name for name in found if name.startswith("cut:"))
