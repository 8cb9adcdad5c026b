"""Writing in diffusion transformers: complete cuts with known answers, and parity with hooks written by hand."""

import numpy as np
import pytest
import torch

from hooks import HookError, Intervention, Patch, Probe, sites
from tests.hooks.transformers import draw, rows_of_prompts
from tests.tiny_transformers import KINDS

SWAP = {"source": 1, "into": 2}
EQUAL = ["a person in the park", "a woman in the park", "a man in the park"]  # as many tokens each


def written(pipe, kind, *patches):
    with Intervention(pipe, patches) as intervention:
        images = draw(pipe, kind)
    return images, intervention.written


@pytest.mark.parametrize("kind", ["sd3", "sd35", "flux-dev", "flux-schnell"])
def test_states_and_pooled_text_together_are_all_the_text_there_is(dit, kind):
    """Given both of another prompt, an image of the same noise is that prompt's; given either, it is neither.

    Matrix products may round a row by its place in the batch, so equal is what differs by a thousandth of what the two
    prompts' images do.
    """
    pipe = dit(kind)
    plain = draw(pipe, kind)
    states, pooled = (Patch(site, **SWAP, branch="conditional") for site in ("dit.in.text", "text.pooled"))
    both, counts = written(pipe, kind, states, pooled)
    rounding = np.abs(plain[2] - plain[1]).max() / 1000
    assert np.abs(both[2] - both[1]).max() < rounding and np.array_equal(both[:2], plain[:2])
    assert all(one.writes == 2 and one.largest_change > 0 for one in counts)
    for one in (states, pooled):
        image = written(pipe, kind, one)[0][2]
        assert min(np.abs(image - plain[other]).max() for other in (1, 2)) > rounding


@pytest.mark.parametrize("kind", KINDS)
def test_keys_and_values_of_the_text_with_the_pooled_text_are_the_only_way_into_the_image(dit, kind):
    """Given those of another row in every attention to the text, the image is that row's, up to the order of sums."""
    pipe = dit(kind)
    plain = draw(pipe, kind, EQUAL)
    read = [site.address for site in sites.attention_sites(pipe, "cross")]
    texts = [f"{one}.text" if one.endswith("joint") else one for one in read]
    patches = [Patch(one, part=("key", "value"), **SWAP) for one in texts]
    if any(site.address == "text.pooled" for site in sites.available(pipe)):
        patches.append(Patch("text.pooled", **SWAP))
    with Intervention(pipe, patches):
        images = draw(pipe, kind, EQUAL)
    rounding = np.abs(plain[2] - plain[1]).max() / 1000
    assert np.abs(images[2] - plain[1]).max() < rounding and np.array_equal(images[:2], plain[:2])
    with Intervention(pipe, patches[:-1]):
        assert np.abs(draw(pipe, kind, EQUAL)[2] - plain[1]).max() > rounding


@pytest.mark.parametrize("kind", ["sd3", "flux-dev"])
def test_the_text_may_enter_at_a_later_step(dit, kind):
    """The first step is then the row's own, and the image neither its own nor the donor's."""
    pipe = dit(kind)
    plain, images = draw(pipe, kind), []
    for steps in ([0, 1], [1]):
        both = [Patch(site, steps=steps, **SWAP) for site in ("dit.in.text", "text.pooled")]
        image, counts = written(pipe, kind, *both)
        assert [one.writes for one in counts] == [len(steps)] * 2
        images.append(image[2])
    rounding = np.abs(plain[2] - plain[1]).max() / 1000
    assert np.abs(images[0] - plain[1]).max() < rounding
    assert min(np.abs(images[1] - plain[other]).max() for other in (1, 2)) > rounding


@pytest.mark.parametrize("kind", ["sd3", "flux-dev"])
def test_a_patch_of_a_row_into_itself_changes_nothing(dit, kind):
    pipe = dit(kind)
    plain = draw(pipe, kind)
    patches = [
        Patch("dit.block.0.joint.text", part=("key", "value"), source=1, into=1),
        Patch("dit.block.1.joint", part=("query", "heads"), source=2, into=2),
        Patch("dit.block.1.image", source=2, into=2),
        Patch("dit.block.0.text", source=0, into=0),
        Patch("text.pooled", source=1, into=1),
    ]
    images, counts = written(pipe, kind, *patches)
    assert np.array_equal(images, plain)
    assert all(one.writes and one.largest_change == 0 for one in counts)


def test_keys_and_values_of_the_text_against_a_hook_by_hand(dit):
    pipe, positions = dit("flux-schnell"), [1, 4]
    patch = Patch("dit.block.1.joint.text", part=("key", "value"), positions=positions, **SWAP)
    with (
        Intervention(pipe, [patch]),
        Probe(pipe, pairs=[(2, 1)], sites="+dit.block.1.joint.text.key") as probe,
    ):
        images = draw(pipe, "flux-schnell")
    attention, handles = pipe.transformer.transformer_blocks[1].attn, []

    def swap(module, args, output):
        output = output.clone()
        output[2, positions] = output[1, positions]
        return output

    for module in (attention.add_k_proj, attention.add_v_proj):
        handles.append(module.register_forward_hook(swap))
    expected = draw(pipe, "flux-schnell")
    for handle in handles:
        handle.remove()
    assert np.array_equal(images, expected)
    assert not np.array_equal(images, draw(pipe, "flux-schnell"))
    assert len(probe.similarity["dit.block.1.joint.text.key:cosine"].values) == 2


@pytest.mark.parametrize("kind", ["flux-schnell", "chroma"])
def test_projections_over_both_streams_against_a_hook_by_hand(dit, kind):
    pipe, positions = dit(kind), [1, 4]
    tokens, guided = 512, {"guidance_scale": 1.0} if kind == "chroma" else {}
    attention = pipe.transformer.single_transformer_blocks[0].attn
    cases = [
        (
            Patch("dit.single.0.joint.text", part="key", positions=positions, **SWAP),
            attention.to_k,
            positions,
        ),
        (Patch("dit.single.0.joint", part="query", **SWAP), attention.to_q, slice(tokens, None)),
    ]
    for patch, module, where in cases:

        def swap(module, args, output, where=where):
            output = output.clone()
            output[2, where] = output[1, where]
            return output

        with Intervention(pipe, [patch]):
            images = draw(pipe, kind, EQUAL, **guided)
        handle = module.register_forward_hook(swap)
        expected = draw(pipe, kind, EQUAL, **guided)
        handle.remove()
        assert np.array_equal(images, expected), patch
        assert not np.array_equal(images, draw(pipe, kind, EQUAL, **guided)), patch


@pytest.mark.parametrize(
    ("kind", "site", "path", "where"),
    [
        ("sd35", "dit.block.1.self", "transformer_blocks.1.attn2", slice(None)),  # of the image alone
        ("sd3", "dit.block.1.joint", "transformer_blocks.1.attn", slice(None)),
        ("flux-dev", "dit.block.1.joint", "transformer_blocks.1.attn", slice(None)),
        ("flux-dev", "dit.single.1.joint", "single_transformer_blocks.1.attn", slice(512, None)),
    ],
)
def test_donors_may_be_of_another_noise_where_the_image_reads_itself(dit, kind, site, path, where):
    """One prompt, two noises: keys and values of the image, against hooks of torch."""
    pipe, prompts = dit(kind), [EQUAL[0]] * 3
    attention = pipe.transformer.get_submodule(path)

    def images():
        noise = [torch.Generator().manual_seed(seed) for seed in (5, 6, 5)]
        return draw(pipe, kind, prompts, generator=noise)

    def swap(module, args, output):
        output = output.clone()
        rows = rows_of_prompts(pipe, output, 3)
        rows[2, where] = rows[1, where]
        return output

    plain = images()
    with Intervention(pipe, [Patch(site, part=("key", "value"), **SWAP)]):
        found = images()
    handles = [one.register_forward_hook(swap) for one in (attention.to_k, attention.to_v)]
    expected = images()
    for handle in handles:
        handle.remove()
    assert np.array_equal(found, expected) and np.array_equal(found[:2], plain[:2])
    np.testing.assert_allclose(plain[2], plain[0], atol=1e-5)
    assert np.abs(found[2] - plain[2]).max() > 1e-4


def test_donor_and_recipient_of_different_length_in_one_sequence_are_refused(dit):
    """Lumina2 puts the image behind each row's own text."""
    pipe = dit("lumina2")
    with (
        pytest.raises(
            HookError,
            match="texts: expected as many tokens of donor and recipient, so that they stand at the",
        ),
        Intervention(pipe, [Patch("dit.single.0.joint.text", part="key", **SWAP)]),
    ):
        draw(pipe, "lumina2")


@pytest.mark.parametrize("kind", ["lumina2", "z-image"])
def test_pairs_of_different_length_stand_in_one_batch(dit, kind):
    """Each pair's text stands where its own length puts it; of Z-Image, which pads to 32, a pair may differ, too."""
    pipe = dit(kind)
    longer = [f"{one} with a dog holding an umbrella in the park" for one in EQUAL[1:]]
    other = EQUAL[2] if kind == "lumina2" else f"{EQUAL[2]} holding an umbrella"
    prompts = [EQUAL[1], other, *longer]
    plain = draw(pipe, kind, prompts)
    texts = [f"{site.address}.text" for site in sites.attention_sites(pipe, "cross")]
    patches = [Patch(one, part=("key", "value"), source=(0, 2), into=(1, 3)) for one in texts]
    with Intervention(pipe, patches):
        images = draw(pipe, kind, prompts)
    for row in (1, 3):
        rounding = np.abs(plain[row] - plain[row - 1]).max() / 1000
        assert np.abs(images[row] - plain[row - 1]).max() < rounding
    assert np.array_equal(images[[0, 2]], plain[[0, 2]])


@pytest.mark.parametrize("length", [1, 20])
def test_what_z_image_is_given_of_the_text_may_be_that_of_another_prompt(dit, length):
    """Also of another number of tokens, if it is padded to the same; refused where it is not."""
    pipe = dit("z-image")
    prompts = [*EQUAL[:2], f"{EQUAL[2]}{' umbrella' * length}"]
    plain = draw(pipe, "z-image", prompts)
    patch = Patch("dit.in.text", **SWAP)
    if length > 1:
        with pytest.raises(HookError, match="as many tokens of donor"), Intervention(pipe, [patch]):
            draw(pipe, "z-image", prompts)
        return
    with Intervention(pipe, [patch]):
        images = draw(pipe, "z-image", prompts)
    rounding = np.abs(plain[2] - plain[1]).max() / 1000
    assert np.abs(images[2] - plain[1]).max() < rounding


def test_donors_on_their_own_trajectory_and_at_the_recipients_latent_differ(dit):
    """Keys of the text depend on the image behind the first block, before which they do not."""
    pipe = dit("sd3")
    for block, same in ((0, True), (1, False)):
        images = [
            written(
                pipe,
                "sd3",
                Patch(f"dit.block.{block}.joint.text", part="value", donor=donor, steps=[1], **SWAP),
            )[0]
            for donor in ("own", "local")
        ]
        assert (np.abs(images[0] - images[1]).max() < 1e-5) == same


def test_what_cannot_be_written_is_refused(dit):
    pipe = dit("flux-dev")
    for patch, message in (
        (
            Patch("dit.single.0.joint", heads=[1], part="key", **SWAP),
            "heads: expected an attention whose heads are known, but got dit.single.0.joint.key",
        ),
        (Patch("dit.block.0.image", positions=[1], **SWAP), "positions: dit.block.0.image is not by token"),
        (Patch("dit.single.0.joint", part="heads", **SWAP), "this pipeline has none"),
    ):
        with pytest.raises(HookError, match=message), Intervention(pipe, [patch]):
            pass
