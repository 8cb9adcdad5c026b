"""What single words can be, and their singulars."""

from __future__ import annotations

import pytest

from probes.prompts.grammar import word_lists
from probes.prompts.grammar.lexicon import singular, word

CLOSED = ("DETERMINERS", "PREPOSITIONS", "CONJUNCTIONS", "PRONOUNS", "AUXILIARIES", "ADVERBS")


def test_words():
    rides, the, snowy = word("rides"), word("the"), word("snowy")
    assert (rides.noun, rides.verb, rides.form, rides.caption_verb, rides.plural) == (
        True,
        True,
        "s",
        True,
        True,
    )
    assert the.closed == "determiner" and not snowy.noun and snowy.adjective
    assert [word(text).closed for text in ("3", "12th", ",", "'s", "dog")] == [
        "number",
        "number",
        "stop",
        "determiner",
        "",
    ]
    assert word("zorblax").noun and not word("zorblaxly").noun and word("zorblaxly").adverb
    assert word("passer-by").noun and word("-").closed == "stop"


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


def test_lists_do_not_contradict_each_other():
    for name in CLOSED:
        assert not getattr(word_lists, name) & (word_lists.ADJECTIVES | word_lists.ADJECTIVES_AND_NOUNS), name
    assert not word_lists.ADJECTIVES & word_lists.ADJECTIVES_AND_NOUNS
    assert not word_lists.AGENTS & word_lists.THINGS_IN_ER
    assert not word_lists.PLURAL_ONLY & word_lists.NAMES_IN_S
