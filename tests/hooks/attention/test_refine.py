"""Word maps spread along self-attention, against the same arithmetic on probabilities that diffusers computed."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from hooks import HookError, MapChoice, Probe
from hooks.attention import definitions, refine
from hooks.attention.definitions import SELF_REFINED
from tests.hooks.conftest import draw
from tests.hooks.oracle import recorded
from tests.tiny import tiny_pipeline


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
    with Probe(pipe, word_maps=definitions.variant(SELF_REFINED, "plain", refine=())) as plain:
        draw(pipe)
    with Probe(pipe, word_maps="self-refined") as probe:
        images = draw(pipe)
    assert np.array_equal(images, bare)
    assert (probe.maps.definition, probe.maps.version) == ("self-refined", "1")
    with pytest.raises(HookError, match=r"Probe\.self_attention: not asked for"):
        _ = probe.self_attention
    found = recorded(pipe, lambda: draw(pipe), "self")
    finest = max(probability.shape[-1] for name, probability in found.items() if ".up." in name)
    layers = [name for name in found if ".up." in name and found[name].shape[-1] == finest]
    side = int(finest**0.5)
    for row in range(3):
        looks = conditional(found, layers, row)
        for token in (0, 2, 5):
            expected = by_hand(plain.maps.heat(row)[token], looks, (side, side))
            np.testing.assert_allclose(
                probe.maps.heat(row)[token], expected, rtol=1e-3, atol=1e-4 * expected.max()
            )


def test_only_grids_that_are_small_enough(monkeypatch):
    pipe = tiny_pipeline("toy")
    monkeypatch.setattr(refine, "REFINE_GRID", 8 * 8)
    with Probe(pipe, word_maps="self-refined") as probe:
        draw(pipe)
    with Probe(pipe, word_maps=definitions.variant(SELF_REFINED, "plain", refine=())) as plain:
        draw(pipe)
    found = recorded(pipe, lambda: draw(pipe), "self")
    layers = [name for name in found if ".up." in name and found[name].shape[-1] == 64]
    expected = by_hand(plain.maps.heat(1)[2], conditional(found, layers, 1), (8, 8))
    np.testing.assert_allclose(probe.maps.heat(1)[2], expected, rtol=1e-3, atol=1e-4 * expected.max())


def test_what_it_takes_and_needs(toy):
    choice = MapChoice(layers="unet.up.*", definition="self-refined")
    with Probe(toy, word_maps=choice, self_attention=MapChoice(layers="unet.mid.*")) as probe:
        draw(toy)
    assert list(probe.self_attention.values) == ["unet.mid.attn.0.self"]
    nowhere = definitions.variant(SELF_REFINED, "nowhere", refine=("unet.top.*",))
    with pytest.raises(HookError, match="no self-attention that the definition 'nowhere' takes"):
        Probe(toy, word_maps=nowhere).__enter__()
