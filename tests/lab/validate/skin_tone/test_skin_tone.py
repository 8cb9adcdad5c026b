"""The card and the page of skin tone: what is claimed there holds, and the page is what the code writes."""

from pathlib import Path

import pytest

from analysis.metrics.skin_tone import read_skin
from lab.validate.skin_tone.card import (
    LIGHTS,
    QUALITIES,
    as_files,
    in_lights,
)
from lab.validate.skin_tone.page import page
from lab.validate.skin_tone.toyworld import rendered

TEN = list(range(1, 11))
PAGE = (Path(__file__).parents[4] / "docs" / "validation" / "skin_tone.md").read_text("utf-8")


def test_the_card_reads_one_to_ten_in_files():
    cards = list(as_files())
    assert len(cards) == 1 + len(QUALITIES)
    for seen in cards:
        assert [tone.tone for tone in seen.tones] == TEN, seen.name
        assert [tone.tone_ciede2000 for tone in seen.tones] == TEN, seen.name
    assert [tone.tone_dalleval2023 for tone in cards[0].tones] == [5, 5, 5, 5, 5, 5, 6, 6, 6, 7]


def test_the_card_reads_one_to_ten_in_every_light_that_is_set_right():
    read = {seen.name: [tone.tone for tone in seen.tones] for seen in in_lights("bradford")}
    for light in LIGHTS:
        assert read[f"{light}, set right"] == TEN and read[light] != TEN, light


def test_the_page_holds_what_the_code_says_now():
    kinds = {"renderings": rendered(1, through_vae=False)}
    now = page(kinds, "skin_tone_card.png", "").split("\n## ")
    for number in (1, 2, 3, 4, 5):  # up to toyworld's pictures, of which the page has more
        assert now[number].partition("\n\nHow they are read")[0] in PAGE
    assert (
        read_skin([(255, 201, 164)]).tone == read_skin([(218, 147, 119)]).tone == 5
    )  # as it says of the two


@pytest.mark.parametrize("name", ["skin_tone_card.png"])
def test_the_figure_is_beside_the_page(name):
    assert f"]({name})" in PAGE and (Path(__file__).parents[4] / "docs" / "validation" / name).is_file()
