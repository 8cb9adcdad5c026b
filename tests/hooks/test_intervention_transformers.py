"""Writing in diffusion transformers: complete cuts with known answers, and parity with hooks written by hand."""

import numpy as np
import pytest

from hooks import HookError, Intervention, Patch, sites
from tests.hooks.transformers import draw

SWAP = {"source": 1, "into": 2}
EQUAL = ["a person in the park", "a woman in the park", "a man in the park"]  # as many tokens each


def written(pipe, kind, *patches):
    with Intervention(pipe, patches) as intervention:
        images = draw(pipe, kind)
    return images, intervention.written


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
