"""The page of errors holds what the code refuses, in its parts."""

import json
from pathlib import Path

import pytest

from lab.pages import errors
from triptych.cli.main import main

ROOT = Path(__file__).parents[3]


def test_the_page_is_that_of_the_code():
    page = (ROOT / "docs/reference/errors.md").read_text("utf-8")
    assert page == errors.page(), "run: python -m lab.pages.errors > docs/reference/errors.md"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            "a.yaml: limit: expected 1 or more, got 0: leave it out",
            ("a.yaml: limit", "1 or more", "0", "leave it out"),
        ),
        ("heads: expected numbers, but got 1.5", ("heads", "numbers", "1.5", "")),
        ("‹path›: cannot be read: check the path", ("‹path›", "cannot be read", "", "check the path")),
        ("nothing was recorded", ("", "nothing was recorded", "", "")),
    ],
)
def test_a_line_has_its_parts(text, parts):
    found = errors.refusal(text, "probes/config/types.py")
    assert (found.kind, found.place, found.rule, found.found, found.remedy) == ("Configuration", *parts)


GOOD = {
    "model": "toyworld",
    "prompts": ["a {person} on a couch"],
    "indicators": {"neutral": "person", "old": "elder"},
}
LINES = {
    "unknown key, got ['x']: did you mean ": ("plan", {"promts": ["x"]}),
    "expected a text with one {person}": ("plan", {"prompts": ["a man"]}),
    "not in the cache, and the hub can't be reached": ("plan", {"model": "no-such/model"}),
    "preset wu2025: not on this machine": ("plan", {"preset": "wu2025"}),
    "expected a YAML file, found none": ("trace", None),
    "expected a run directory, found no run.json": ("report", None),
}


@pytest.mark.parametrize("text", LINES)
def test_what_newcomers_meet_is_said_so(text, tmp_path, capsys):
    command, over = LINES[text]
    path = tmp_path if command == "report" else tmp_path / "a.yaml"
    if over is not None:
        path.write_text(json.dumps({**GOOD, **over}), "utf-8")
    assert main([command, str(path)]) == 2
    assert text in capsys.readouterr().err
    assert f"| `{text}" in (ROOT / "docs/reference/errors.md").read_text("utf-8")


def test_a_refusal_stands_in_the_list(tmp_path, capsys):
    assert main(["trace", str(tmp_path / "none.yaml")]) == 2
    line = errors.refusal(capsys.readouterr().err.strip(), "probes/config/yaml_text.py")
    listed = [(one.rule, one.found, one.remedy) for one in errors.refusals()]
    assert (line.rule, line.found, line.remedy) in listed


def test_every_module_has_a_kind():
    assert {one.kind for one in errors.refusals()} == set(errors.KINDS.values())
