"""Images of prompts that stand alone: which are of one prompt, and what is refused."""

from pathlib import Path

import pytest

from probes.errors import UserError
from probes.prompts.prompt import Prompt
from probes.stages.external_images.table import ImageLocation, ImageRow
from probes.stages.external_images.triplets import triplets


def row(number, prompt, seed=None, indicator="", **levels):
    return ImageRow(
        f"line {number}", ImageLocation(Path("a.png")), prompt, indicator, seed, None, levels=levels
    )


def singles(rows):
    return triplets(rows, {"plain": ("image", "images")}, "plain", alone=True)


def test_images_of_one_text_and_the_same_levels_are_of_one_prompt():
    found = singles(
        [row(2, "a nurse", model="a"), row(3, "a nurse", model="b"), row(4, "a nurse", model="a")]
    )
    assert found.prompts == [
        Prompt({"plain": "a nurse"}, levels={"model": "a"}),
        Prompt({"plain": "a nurse"}, levels={"model": "b"}),
    ]
    assert [(draw.triplet, draw.seed, draw.rows[0].at) for draw in found.draws] == [
        *((0, 0, "line 2"), (0, 1, "line 4"), (1, 0, "line 3"))
    ]
    assert not found.paired and not found.left_out


def test_seeds_tell_images_of_a_prompt_apart():
    found = singles([row(2, "a nurse", 7), row(3, "a nurse", 3), row(4, "a pilot", 7)])
    assert [(draw.triplet, draw.seed) for draw in found.draws] == [(0, 3), (0, 7), (1, 7)]
    assert found.paired and found.shared
    alone = singles([row(2, "a nurse", 7), row(3, "a pilot", 9)])
    assert [(draw.seed, draw.stated) for draw in alone.draws] == [(0, 7), (0, 9)] and not alone.shared


def test_what_does_not_fit_is_refused_by_its_line():
    with pytest.raises(
        UserError, match="line 3: expected one image of this prompt and seed 1, got another in line 2"
    ):
        singles([row(2, "a nurse", 1), row(3, "a nurse", 1)])
    with pytest.raises(UserError, match="line 2: expected the indicator plain or none, got 'feminine'"):
        singles([row(2, "a nurse", indicator="feminine")])
    with pytest.raises(UserError, match="line 3: expected a seed in every row or in none"):
        singles([row(2, "a nurse", 1), row(3, "a pilot")])
