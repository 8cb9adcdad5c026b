"""What single words can be, and their singulars."""

from __future__ import annotations

import pytest

from probes.prompts.grammar.lexicon import singular, word


def test_agents():
    acting = ("crowd", "dog", "electrician", "cashier", "women", "skateboarder", "conductor")
    things = ("water", "computer", "table", "sweater", "mirror", "paper")
    assert all(word(text).agent for text in acting)
    assert not any(word(text).agent for text in things)


@pytest.mark.parametrize(
    ("plural", "wanted"),
    [
        *(("women", "woman"), ("people", "person"), ("oxen", "ox"), ("leaves", "leaf"), ("teeth", "tooth")),
        *(("jeans", "jeans"), ("glasses", "glasses"), ("graffiti", "graffiti"), ("paris", "paris")),
        *(("glass", "glass"), ("bus", "bus"), ("tennis", "tennis"), ("toyota", "toyota")),
        *(
            ("hoodies", "hoodie"),
            ("selfies", "selfie"),
            ("fifties", "fifty"),
            ("t-shirts", "t-shirt"),
            ("camerawomen", "camerawoman"),
        ),
    ],
)
def test_singulars(plural, wanted):
    assert singular(plural) == wanted
    assert singular(wanted) == wanted  # a lemma is its own lemma: tags and prompts meet
