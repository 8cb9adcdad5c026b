"""Word maps spread along self-attention, against the same arithmetic on probabilities that diffusers computed."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from hooks import HookError, Probe
from hooks.attention import attention
from hooks.attention.definitions import SELF_REFINED
from tests.hooks.conftest import draw
from tests.hooks.oracle import recorded
from tests.tiny import tiny_pipeline

PLAIN = replace(SELF_REFINED, name="plain", refine=())


def by_hand(heat, looks, grid, power=6.0, keep=0.5):
    """One token's map; `looks` is (layers, calls, heads, pixels, pixels)."""
    heat, looks = torch.from_numpy(heat), looks.double().mean(dim=(0, 1, 2))
    own = heat / heat.max()
    small = F.adaptive_avg_pool2d(own[None], grid)[0].double()
    spread = torch.stack([(row * small.flatten() ** power).sum() for row in looks]).view(1, 1, *grid)
    spread = F.interpolate(spread.float(), tuple(heat.shape), mode="bicubic")[0, 0].clamp(min=0)
    return (heat.max() * own**keep * spread / spread.max()).numpy()


def conditional(found, layers, row):
    """Of the rows without and with the prompt, one with it."""
    return torch.stack([found[layer][:, len(found[layer][0]) // 2 + row] for layer in layers])


@pytest.mark.parametrize("kind", ["toy", "sdxl"])
def test_maps_refined_by_the_finest_self_attention(pipelines, kind):
    pipe = pipelines(kind)
    bare = draw(pipe)
    with Probe(pipe, word_maps=PLAIN, map_tokens="all") as plain:
        draw(pipe)
    with Probe(pipe, word_maps="self-refined", map_tokens="all") as probe:
        images = draw(pipe)
    assert np.array_equal(images, bare)
    assert (probe.maps.definition, probe.maps.version) == ("self-refined", "1")
    found = recorded(pipe, lambda: draw(pipe), "self")
    finest = max(probability.shape[-1] for name, probability in found.items() if ".up." in name)
    layers = [name for name in found if ".up." in name and found[name].shape[-1] == finest]
    side = int(finest**0.5)
    for row in range(3):
        looks = conditional(found, layers, row)
        np.testing.assert_allclose(probe.maps.self_attention[row], looks.mean((0, 1, 2)), atol=1e-5)
        for token in (0, 2, 5):
            expected = by_hand(plain.maps.heat(row)[token], looks, (side, side))
            np.testing.assert_allclose(
                probe.maps.heat(row)[token], expected, rtol=1e-3, atol=1e-4 * expected.max()
            )


def test_only_grids_that_are_small_enough(monkeypatch):
    pipe = tiny_pipeline("toy")
    monkeypatch.setattr(attention, "REFINE_GRID", 8 * 8)
    with Probe(pipe, word_maps="self-refined", map_tokens="all") as probe:
        draw(pipe)
    with Probe(pipe, word_maps=PLAIN, map_tokens="all") as plain:
        draw(pipe)
    found = recorded(pipe, lambda: draw(pipe), "self")
    layers = [name for name in found if ".up." in name and found[name].shape[-1] == 64]
    expected = by_hand(plain.maps.heat(1)[2], conditional(found, layers, 1), (8, 8))
    np.testing.assert_allclose(probe.maps.heat(1)[2], expected, rtol=1e-3, atol=1e-4 * expected.max())


def test_it_needs_self_attention(toy):
    nowhere = replace(SELF_REFINED, refine=("unet.top.*",))
    with pytest.raises(HookError, match="no self-attention that the definition 'self-refined' takes"):
        Probe(toy, word_maps=nowhere).__enter__()
