"""Word maps of diffusion transformers compared with the truth."""

import numpy as np
import pytest

from hooks.attention.definitions import JOINT_SHARE
from lab.train.base.measure import benchmark_pipeline
from lab.validate import transformer_word_maps as maps
from probes.toyworld import WEIGHTS


def outlined(cell, prompt=0):
    truth, heat = np.zeros((64, 64), bool), np.zeros((16, 16))
    truth[:4, :4], heat[cell, cell] = True, 1.0
    return maps.Outlined(prompt, "dog", truth, heat)


def test_the_threshold_is_the_tuning_nouns_best():
    right, wrong = maps.table([outlined(0)]), maps.table([outlined(9)])
    assert right.shape == (len(maps.THRESHOLDS), 1) and wrong[len(wrong) // 2 :].max() == 0
    numbers, values = maps.figures(np.hstack([right, right]), wrong)
    assert numbers["threshold"] == maps.THRESHOLDS[int(right[:, 0].argmax())]
    assert numbers["held"] == 0 and values.tolist() == [0]
    numbers, values = maps.figures(right, np.hstack([right, wrong]))
    assert numbers["held"] == pytest.approx(right.max() / 2, abs=1e-4) and len(values) == 2


def test_one_block_alone_is_another_definition():
    alone = maps.of_block(JOINT_SHARE, "dit.block.2.joint")
    assert alone.layers == (("dit.block.2.joint", 1.0),) and alone.reading == "share"
    assert alone.name == "joint-share, dit.block.2.joint"


@pytest.mark.lab
def test_nouns_of_a_model_are_named_drawn_and_mapped():
    pipe = benchmark_pipeline(WEIGHTS / "toyworld-dit")[0]
    found = maps.draw(pipe, JOINT_SHARE, 4, steps=8, guidance_scale=1.0)
    assert found and all(one.truth.any() and one.heat.shape == (8, 8) for one in found)
    assert {one.prompt for one in found} <= set(range(4))
