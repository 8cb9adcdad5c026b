"""Writing in diffusion transformers: complete cuts with known answers, and parity with hooks written by hand."""

import numpy as np
import pytest
import torch

from hooks import HookError, Intervention, Patch, sites
from tests.hooks.transformers import draw, rows_of_prompts
from tests.tiny_transformers import KINDS

SWAP = {"source": 1, "into": 2}
COMMON = ("sd3", "flux-schnell", "lumina2", "z-image")  # the others are slow
EACH = [kind if kind in COMMON else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS]
EQUAL = ["a person in the park", "a woman in the park", "a man in the park"]  # as many tokens each


def written(pipe, kind, *patches):
    with Intervention(pipe, patches) as intervention:
        images = draw(pipe, kind)
    return images, intervention.written


@pytest.mark.parametrize("kind", ["sd3", "flux-schnell"])
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


@pytest.mark.parametrize("kind", EACH)
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


@pytest.mark.parametrize(
    ("kind", "site", "path", "where"),
    [
        ("sd35", "dit.block.1.self", "transformer_blocks.1.attn2", slice(None)),  # of the image alone
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
