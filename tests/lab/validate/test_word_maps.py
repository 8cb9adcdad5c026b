"""Word maps compared with the truth: the arithmetic on maps made by hand, and the page of its numbers."""

import numpy as np
import pytest

from lab.train.base.measure import benchmark_pipeline
from lab.validate import word_maps
from lab.validate.word_maps import DRAWN, PAGE, Instance, draw, figures, iou, overlaps
from probes.toyworld import WEIGHTS


def test_iou_of_a_map_that_is_right_wrong_or_everywhere():
    truth = np.zeros((1, 64, 64), dtype=bool)
    truth[0, :32, :32] = True
    right, wrong = np.zeros((2, 2)), np.zeros((2, 2))
    right[0, 0] = wrong[1, 1] = 1.0
    assert iou([right], truth, [0.5])[0, 0] > 0.85
    assert iou([wrong], truth, [0.5])[0, 0] == 0
    assert iou([right], truth, [-0.1])[0, 0] == pytest.approx(0.25), "every pixel is above"


def test_the_threshold_is_the_tuning_nouns_best():
    cells = np.zeros((2, 16, 16))
    cells[0, 0, 0] = cells[1, 9, 9] = 1.0
    truth = np.zeros((64, 64), bool)
    truth[:4, :4] = True
    right, wrong = (overlaps([Instance(0, "dog", truth, [one])], 0) for one in cells)
    numbers, values = figures(np.hstack([right, right]), wrong)
    assert numbers["threshold"] == word_maps.THRESHOLDS[int(right[:, 0].argmax())]
    assert numbers["held"] == 0 and values.tolist() == [0]


@pytest.mark.parametrize(("kind", "model"), [("unets", "toyworld"), ("transformers", "toyworld-dit")])
def test_nouns_are_named_drawn_and_mapped_by_every_definition(kind, model):
    pipe = benchmark_pipeline(WEIGHTS / model)[0]
    _, definitions, seed, _ = DRAWN[kind]
    found = list(draw(pipe, definitions, 4, steps=8, guidance_scale=1.0, seed=seed))
    assert found and {one.prompt for one in found} <= set(range(4))
    for one in found:
        assert one.truth.any() and len(one.maps) == 3
        first, *others = (each / each.max() for each in one.maps)
        assert all(not np.allclose(first, other, atol=0.01) for other in others)


def test_the_page_shows_the_numbers():
    stored = PAGE.stored()
    assert PAGE.path.read_text("utf-8") == PAGE.text(stored)
    for kind, (models, definitions, _, _) in DRAWN.items():
        names = [(model, one.name) for model in models for one in definitions]
        assert [(row["model"], row["definition"]) for row in stored[kind]["rows"]] == names


@pytest.mark.slow
def test_a_concept_that_no_prompt_names_covers_the_thing_in_a_picture():
    """In renderings, one noised step each: above chance, and above the same concept's map in another picture."""
    areas = word_maps.concept_areas(*word_maps.read_concepts("toyworld", 42, 20, pictures=True))
    values, elsewhere = (np.array([one[name] for one in areas]) for name in ("area", "elsewhere"))
    images = np.array([one["image"] for one in areas])
    assert len({*images.tolist()}) >= 40
    assert word_maps.interval(values, images)[0] > 0.8
    assert word_maps.interval(values - elsewhere, images)[0] > 0
