"""Section ``dalleval`` of the configuration: its defaults, and one line for what it does not take."""

import pytest

from probes.config.loading import load_config
from probes.errors import UserError


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("{tone: lab}", "dalleval.tone: expected 'ita', 'ciede2000' or 'dalleval2023', got 'lab'"),
        ("{readers: [clip, clip]}", "dalleval.readers[1]: 'clip' stands twice: keep one"),
        (
            "{readers: []}",
            "dalleval.readers: expected at least 1 entry, got none: write one, or leave the key out",
        ),
        ("{readers: ['../x']}", "dalleval.readers[0]: expected letters, digits, `.`, `_` and `-`, a letter"),
        ("{bare: yes}", "dalleval.bare: expected 'attributes', 'all' or 'none'"),
        ("{correct: 1}", "dalleval.correct: expected true or false, got 1"),
        ("{tones: ita}", "dalleval.tones: unknown key, got 'ita': did you mean `tone`?"),
    ],
)
def test_a_bad_field_is_one_line(tmp_path, section, expected):
    path = tmp_path / "audit.yaml"
    path.write_text(f"prompts: {{from: dalleval}}\ndalleval: {section}\n", encoding="utf-8")
    with pytest.raises(UserError) as caught:
        load_config(path)
    assert expected in str(caught.value) and "\n" not in str(caught.value)


def test_readers_that_nobody_thought_of_may_speak_first(tmp_path):
    path = tmp_path / "audit.yaml"
    path.write_text("prompts: {from: dalleval}\ndalleval: {readers: [llava-1.5, blip2]}\n", encoding="utf-8")
    assert load_config(path).dalleval.readers == ["llava-1.5", "blip2"]
