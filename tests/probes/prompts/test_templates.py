"""What is refused of templates and system prompts around texts, and what they make of a prompt."""

import pytest

from probes.config.schema import Config
from tests.probes.config.test_messages import said

TEXTS = ["a {person} with a dog", "a {person} in a hat"]


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ({"system": [], "texts": TEXTS}, "prompts.system: expected at least 1 entry, got none"),
        ({"system": [None, 3], "texts": TEXTS}, "prompts.system[1]: expected a text, got 3"),
        ({"system": ["Draw.", "Draw."], "texts": TEXTS}, "prompts.system[1]: 'Draw.' stands twice: keep one"),
        ({"system": [None]}, "prompts.texts: expected this key, found none: add it"),
        (
            {"system": [None], "texts": [{"text": TEXTS[0], "levels": {"system": "x"}}]},
            "prompts.texts[0]: expected no level `system`",
        ),
        (
            {"system": [None], "texts": [{"text": TEXTS[0], "system_prompt": "x"}]},
            "prompts.texts[0].system_prompt: expected no system prompt of its own, got one: take it out",
        ),
    ],
)
def test_what_is_refused_is_one_line(prompts, message):
    line = said({"prompts": prompts})
    assert message in line and "\n" not in line


def test_systems_and_templates_are_crossed():
    crossed = {"template": {"photo": "a photo of {}"}, "system": {"own": None, "plain": "Draw this."}}
    prompts = Config(prompts=crossed | {"texts": TEXTS}).prompts
    assert [one.levels for one in prompts] == [
        {"system": system, "text": text, "template": "photo"} for system in ("own", "plain") for text in TEXTS
    ]
    assert [one.system_prompt for one in prompts] == [None, None, "Draw this.", "Draw this."]
    assert len({one.id for one in prompts}) == 4
    assert prompts[3].template == "a photo of a {person} in a hat"
