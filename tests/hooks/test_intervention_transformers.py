"""Writing in diffusion transformers: complete cuts with known answers, and parity with hooks written by hand."""

import numpy as np
import pytest

from hooks import HookError, Intervention, Patch, Probe
from tests.hooks.transformers import draw

SWAP = {"source": 1, "into": 2}


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
            Patch("dit.single.0.joint", **SWAP),
            "cannot be written: its module runs over image and text at once",
        ),
        (Patch("dit.block.0.image", positions=[1], **SWAP), "positions: dit.block.0.image is not by token"),
        (Patch("dit.single.0.joint", part="heads", **SWAP), "this pipeline has none"),
    ):
        with pytest.raises(HookError, match=message), Intervention(pipe, [patch]):
            pass
