"""Choosing captions: what is kept once, what is left out for which reason, and how a triplet is made of one."""

from probes.prompts.captions import DUPLICATE, LONG, UNPRINTABLE, neutral_prompts
from probes.prompts.forms import PromptSource
from probes.prompts.neutral import HUMAN, NO_PERSON


def test_every_caption_is_kept_or_has_a_reason():
    said = neutral_prompts(
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
        ],
        {"neutral": ("person", "people")},
        PromptSource(**{"from": "captions.txt"}),
    )
    assert [(prompt.id, prompt.texts["neutral"]) for prompt in said.prompts] == [
        ("c000001", "A person in a hat."),
        ("c000004", "a person in a cap"),
    ]
    assert said.dropped == {DUPLICATE: 2, NO_PERSON: 2, HUMAN: 2, UNPRINTABLE: 1, LONG: 2}
    assert said.words == {"men": 1, "man": 1}
    assert said.read == 11 == len(said.prompts) + said.dropped.total()
