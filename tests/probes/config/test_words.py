"""The short form of indicators: the same configuration as the one that is written out, wherever one is read."""

import json

from probes.config.schema import Config

SHORT = {
    "neutral": ["person", "human"],
    "feminine": ["woman", {"word": "ze", "plural": "zem"}, "old lady", "\u5973\u6027"],
    "masculine": "man",
}
LONG = {
    "neutral": {"word": "person"},
    "feminine": "woman",
    "masculine": "man",
    "human": {"word": "human", "control": True},
    "ze": {"word": "ze", "plural": "zem", "control": "feminine"},
    "old_lady": {"word": "old lady", "control": "feminine"},
    "feminine_4": {"word": "\u5973\u6027", "control": "feminine"},
}


def resolved(indicators, **more):
    return json.dumps(Config(prompts=["a {person}"], indicators=indicators, **more).resolved())


def test_a_list_is_a_word_with_its_synonyms():
    assert resolved(SHORT) == resolved(LONG)
    assert Config(prompts=["a {person}"], indicators=SHORT).contrasts == [["masculine", "feminine"]]
