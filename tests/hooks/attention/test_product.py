"""Layers combined by their product, and the token after the word."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from hooks import Probe
from tests.hooks.conftest import draw

NAME = "decoder-product"


def by_hand(kept, row, size, calls):
    """The definition computed layer by layer, token by token, from the sums kept of each layer."""
    logs = []
    for address, sums in kept.values.items():
        if address.startswith("unet.up."):
            mean = torch.from_numpy(sums[row].sum(0))[None]
            large = (
                F.interpolate(mean, size=size, mode="bicubic")[0].clamp(min=0)
                if mean.shape[-2:] != size
                else mean[0]
            )
            both = (large[:-1] + large[1:]) / 2
            logs.append(torch.log(torch.cat([both, large[-1:]]) + 1e-3 * calls))
    return (torch.stack(logs).mean(0).exp() ** 2).numpy()


@pytest.mark.parametrize("kind", ["toy", "sdxl"])
def test_the_product_of_the_up_blocks_layers(pipelines, kind):
    pipe = pipelines(kind)
    everything = {"layer_maps": 1, "map_tokens": "all"}
    with Probe(pipe, word_maps=NAME) as words, Probe(pipe, word_maps=NAME, **everything) as probe:
        draw(pipe)
    assert (probe.maps.definition, probe.maps.version) == (NAME, "1")
    assert probe.maps.layers and all(address.startswith("unet.up.") for address in probe.maps.layers)
    for row in range(3):
        expected = by_hand(probe.layer_maps, row, (16, 16), sum(probe.layer_maps.calls))
        np.testing.assert_allclose(probe.maps.heat(row), expected, rtol=1e-4)
        columns = list(words.maps.columns[row])
        np.testing.assert_allclose(words.maps.heat(row), expected[columns], rtol=1e-4)
