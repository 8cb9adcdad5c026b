"""The card and the page of skin tone: what is claimed there holds, and the page is what the code writes."""

from analysis.metrics.skin_tone import read_skin
from lab.validate.skin_tone.__main__ import PAGE, summary
from lab.validate.skin_tone.card import LIGHTS, as_files, in_lights
from lab.validate.skin_tone.toyworld import rendered

TEN = list(range(1, 11))


def test_the_card_reads_one_to_ten_in_files():
    cards = list(as_files())
    assert len(cards) == 2
    for seen in cards:
        assert [tone.tone for tone in seen.tones] == TEN, seen.name
        assert [tone.tone_ciede2000 for tone in seen.tones] == TEN, seen.name
    assert [tone.tone_dalleval2023 for tone in cards[0].tones] == [5, 5, 5, 5, 5, 5, 6, 6, 6, 7]


def test_the_card_reads_one_to_ten_in_every_light_that_is_corrected():
    read = {seen.name: [tone.tone for tone in seen.tones] for seen in in_lights()}
    for light in LIGHTS:
        assert read[f"{light}, corrected"] == TEN and read[light] != TEN, light


def test_the_page_is_what_the_code_says_now():
    text = PAGE.path.read_text("utf-8")
    assert PAGE.text() == text
    assert PAGE.path.with_name("skin_tone_card.png").is_file() and "](skin_tone_card.png)" in text
    assert (
        read_skin([(255, 201, 164)]).tone == read_skin([(218, 147, 119)]).tone == 5
    )  # as it says of the two


def test_what_is_stored_of_pictures_is_what_is_read():
    found = summary(rendered(100, through_vae=False))
    assert found["n"] == found["statuses"]["ok"] == 100
    stored = PAGE.stored()["pictures"]["renderings"]
    assert (found["inside"], found["share"]) == (stored["inside"], stored["share"])
    for now, then in zip(found["skins"], stored["skins"], strict=True):
        assert (now["n"], now["read"], now["off"]) == (then["n"], then["read"], then["off"])
        assert [[list(one) for one in rule] for rule in now["counts"]] == then["counts"]
