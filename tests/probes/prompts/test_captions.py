"""Choosing captions: what is kept once, what is left out for which reason, and how a triplet is made of one."""

from probes.prompts.captions import DUPLICATE, LONG, UNPRINTABLE, select, triplets
from probes.prompts.neutral import HUMAN, NO_PERSON


def test_every_caption_is_kept_or_has_a_reason():
    said = select(
        [
            "A  person\tin a hat.",
            "a person in a hat",
            "A PERSON IN A HAT .",
            "a person in a cap",
            "a man",
            "people and men",
            "two people and a man",
            "",
            "a person\x1b[31m",
            "a person " + "very " * 50 + "tall",
            "a person " + "a" * 2000,
        ]
    )
    assert [(n.number, n.text) for n in said.kept] == [(1, "A person in a hat."), (4, "a person in a cap")]
    assert said.dropped == {DUPLICATE: 2, NO_PERSON: 2, HUMAN: 2, UNPRINTABLE: 1, LONG: 2}
    assert said.words == {"men": 1, "man": 1}
    assert said.read == 11 == len(said.kept) + said.dropped.total()


def test_a_triplet_has_a_text_for_each_indicator():
    kept = select(["x", "A person and people"]).kept
    words = {"n": ("person", "people"), "f": ("woman", "women"), "i": ("individual", "individuals")}
    assert triplets(kept, words) == [
        {
            "id": "c000002",
            "n": "A person and people",
            "f": "A woman and women",
            "i": "An individual and individuals",
        }
    ]
    assert triplets(kept, words, articles="kept")[0]["i"] == "A individual and individuals"
