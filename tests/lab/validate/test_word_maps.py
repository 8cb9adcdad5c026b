"""Word maps compared with the truth: the arithmetic on maps made by hand, and the page of its figures."""

import json

import numpy as np
import pytest
import torch

from hooks import Probe
from lab.train.base.measure import benchmark_pipeline
from lab.validate import word_maps
from lab.validate.word_maps import (
    OURS,
    Candidate,
    Instance,
    candidates,
    choose,
    figures,
    heat,
    iou,
    overlaps,
)
from lab.validate.word_maps_page import FIGURES, page_of_stored
from probes.toyworld import WEIGHTS


def instance(prompt=0, following=0.0, **layers):
    """An instance whose truth is the left upper quarter; `layers` are maps of 2 x 2 cells, alike at every step."""
    truth = np.zeros((64, 64), dtype=bool)
    truth[:32, :32] = True
    maps = {
        address: np.stack([[np.array(cells, float)] * 3, [np.full((2, 2), following)] * 3])
        for address, cells in layers.items()
    }
    return Instance(prompt, "dog", truth, np.mean([m[0, 0] for m in maps.values()], axis=0), maps, np.eye(4))


def test_iou_of_a_map_that_is_right_wrong_or_everywhere():
    truth = np.zeros((1, 64, 64), dtype=bool)
    truth[0, :32, :32] = True
    right, wrong = np.zeros((2, 2)), np.zeros((2, 2))
    right[0, 0] = wrong[1, 1] = 1.0
    assert iou([right], truth, [0.5])[0, 0] > 0.85
    assert iou([wrong], truth, [0.5])[0, 0] == 0
    assert iou([right], truth, [-0.1])[0, 0] == pytest.approx(0.25), "every pixel is above"


def test_candidates_combine_layers_as_they_say():
    one = instance(
        following=0.2, **{"unet.down.0": [[0.0, 0.8], [0.0, 0.0]], "unet.up.0": [[0.4, 0.1], [0.1, 0.1]]}
    )
    assert heat(one, Candidate()) == pytest.approx(np.array([[0.2, 0.45], [0.05, 0.05]]))
    assert heat(one, Candidate(layers="up")) == pytest.approx(np.array([[0.4, 0.1], [0.1, 0.1]]))
    assert heat(one, Candidate(layers="unet.down.0", power=2.0))[0, 1] == pytest.approx(0.64)
    assert heat(one, Candidate(combine="scaled"))[0] == pytest.approx([0.5, 0.625])
    floor = word_maps.FLOOR
    assert heat(one, Candidate(combine="product"))[0, 0] == pytest.approx(
        np.sqrt((0.0 + floor) * (0.4 + floor))
    )
    assert heat(one, Candidate(layers="up", following=1.0))[0, 0] == pytest.approx(0.3)


def test_a_map_spread_along_self_attention():
    one = instance(**{"unet.up.0": [[0.4, 0.2], [0.1, 0.0]]})
    one.looks[0] = one.looks[3] = [0.5, 0.0, 0.0, 0.5]  # the first and the last pixel look at both alike
    spread = heat(one, Candidate(refine=2.0))
    assert spread == pytest.approx(0.4 * np.array([[1.0, 0.5], [0.125, 1.0]]))
    assert heat(one, Candidate(refine=2.0, keep=0.5)) == pytest.approx(
        spread * np.sqrt([[1, 0.5], [0.25, 0]])
    )


def test_the_choice_is_made_on_the_tuning_half_alone():
    """In tuning the up block is right and the down block wrong, in the held-out half the other way round."""
    right, wrong = [[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]
    tuning = [instance(prompt, **{"unet.down.0": wrong, "unet.up.0": right}) for prompt in (0, 2)]
    held = [instance(prompt, **{"unet.down.0": right, "unet.up.0": wrong}) for prompt in (1, 3)]
    tried = candidates(["unet.down.0", "unet.up.0"])
    chosen = choose(tuning, tried)
    found, values = figures(overlaps(tuning, chosen), overlaps(held, chosen))
    assert chosen.layers in ("up", "unet.up.0") and OURS in tried
    assert found["tuning"] > 0.8 and found["held"] == 0 and values.tolist() == [0, 0]


def test_ours_is_the_definition_of_hooks():
    pipe = benchmark_pipeline(WEIGHTS / "toyworld")[0]
    pipe.set_progress_bar_config(disable=True)
    noise = torch.Generator().manual_seed(0)
    read = {"word_maps": word_maps.OURS_NAME, "layer_maps": word_maps.BINS, "map_tokens": "all"}
    with Probe(pipe, sites="latent", **read) as probe:
        output = pipe("a woman in a dress with a ball in the park", generator=noise, num_inference_steps=6)
    found = list(word_maps._instances(probe, probe, 0, 0, np.asarray(output.images[0])))
    assert found
    for one in found:
        (word,) = [word for word in probe.words(row=0) if word.lower == one.noun]
        # interpolated bin by bin here, after the sum there: what overshoots below 0 is cut at different places
        expected = probe.word_map(word).values
        assert np.corrcoef(heat(one, OURS).ravel(), expected.ravel())[0, 1] > 0.999


def test_the_threshold_is_the_tuning_nouns_best():
    cells = np.zeros((2, 16, 16))
    cells[0, 0, 0] = cells[1, 9, 9] = 1.0
    truth = np.zeros((64, 64), bool)
    truth[:4, :4] = True
    right, wrong = (overlaps([Instance(0, "dog", truth, one, {})]) for one in cells)
    numbers, values = figures(np.hstack([right, right]), wrong)
    assert numbers["threshold"] == word_maps.THRESHOLDS[int(right[:, 0].argmax())]
    assert numbers["held"] == 0 and values.tolist() == [0]


def test_nouns_of_a_transformer_are_named_drawn_and_mapped():
    pipe = benchmark_pipeline(WEIGHTS / "toyworld-dit")[0]
    alone = word_maps.of_block(word_maps.JOINT_SHARE, "dit.block.1.joint")
    assert alone.layers == ("dit.block.1.joint",) and alone.name == "joint-share, dit.block.1.joint"
    found = word_maps.draw_transformer(
        pipe, alone, 4, steps=8, guidance_scale=1.0, seed=word_maps.TRANSFORMER_SEED
    )
    assert found and all(one.truth.any() and one.daam.shape == (8, 8) for one in found)
    assert {one.prompt for one in found} <= set(range(4))


def test_the_page_shows_the_figures():
    stored = json.loads(FIGURES.read_text("utf-8"))
    assert FIGURES.with_name("word_maps.md").read_text("utf-8") == page_of_stored()
    assert stored["ours"] == {"name": word_maps.OURS_NAME, "version": word_maps.OURS_VERSION} | vars(OURS)


@pytest.mark.slow
def test_a_concept_that_no_prompt_names_covers_the_thing_in_a_picture():
    """In renderings, one noised step each: above chance, and above the same concept's map in another picture."""
    areas = word_maps.concept_areas(*word_maps.read_concepts("toyworld", 42, 20, pictures=True))
    values, elsewhere = (np.array([one[name] for one in areas]) for name in ("area", "elsewhere"))
    images = np.array([one["image"] for one in areas])
    assert len({*images.tolist()}) >= 40
    assert word_maps.interval(values, images)[0] > 0.8
    assert word_maps.interval(values - elsewhere, images)[0] > 0
