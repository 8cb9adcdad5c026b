"""R-precision by hand, with ties and duplicates."""

import numpy as np
import pytest

from analysis.methods.alignment.scores import r_precision

# Twenty images in the plane of four captions at 0, 90, 180 and 270 degrees. An image at an angle is nearest to the
# caption at the nearest right angle; the third number says by hand whether that is its prompt.
CAPTIONS = ["east", "north", "west", "south"]
BY_HAND = [
    *((10, "east", 1), (350, "east", 1), (44, "east", 1), (46, "east", 0), (180, "east", 0)),
    *((90, "north", 1), (60, "north", 1), (120, "north", 1), (30, "north", 0), (140, "north", 0)),
    *((180, "west", 1), (200, "west", 1), (136, "west", 1), (134, "west", 0), (0, "west", 0)),
    *((270, "south", 1), (300, "south", 1), (226, "south", 1), (224, "south", 0), (90, "south", 0)),
]


def at(*degrees):
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def test_twenty_images_by_hand():
    degrees, prompts, hits = zip(*BY_HAND)
    found, negatives = r_precision(
        5 * at(*degrees), CAPTIONS, 0.1 * at(0, 90, 180, 270), prompts, negatives=99
    )
    assert found.tolist() == list(hits) and found.mean() == 0.6
    assert negatives == 3  # all that say something else, where 99 are asked for


def test_a_caption_that_is_the_same_text_is_no_negative():
    """The prompt stands thrice, once with other case and spacing, and once with an embedding nearer to the image."""
    captions = ["A cat  sits", "a dog", "a cat sits", "a cat sits", "a dog"]
    texts = at(20, 90, 0, 5, 90)
    found, negatives = r_precision(at(4, 80), captions, texts, ["a cat sits", "a dog"])
    assert found.tolist() == [1.0, 1.0]
    assert negatives == 1  # neither the prompt again nor the dog twice


def test_ties_count_as_the_mean_over_ways_to_break_them():
    captions, texts = ["a", "b", "c", "d"], at(0, 0, 0, 90)
    found, _ = r_precision(at(0, 0, 89), captions, texts, ["a", "d", "d"])
    assert found.tolist() == pytest.approx([1 / 3, 0, 1])
    # float32 embeddings of the same tokens, one unit in the last place apart, are tied
    near = np.float32(texts)
    near[1] = np.nextafter(near[1], np.float32(2))
    assert r_precision(at(30), captions, near, ["a"])[0].tolist() == pytest.approx([1 / 3])


def test_without_negatives_nothing_is_said():
    found, negatives = r_precision(at(0), ["a", "A "], at(0, 90), ["a"])
    assert np.isnan(found).all() and negatives == 0
