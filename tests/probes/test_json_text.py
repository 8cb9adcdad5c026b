"""JSON of others ends in one kind of error, wherever it is read."""

import ast
import json
from pathlib import Path

import pytest

from probes.errors import parse_json

ROOT = Path(__file__).parents[2]
# what trains and validates the bundled models, and recomputes papers, reads what it has written itself
OWN = ("probes/toyworld/", "lab/validate/", "lab/papers/")
DEEP = "[" * 100_000
WRONG = [DEEP, '{"a": ' * 50_000, "9" * 5000, "", "{", b"\xff\xfe"]


@pytest.mark.parametrize("text", WRONG, ids=lambda text: str(text[:9]))
def test_whatever_is_wrong_is_one_kind_of_error(text):
    with pytest.raises(json.JSONDecodeError):
        parse_json(text)


def test_what_is_right_is_as_the_standard_library_reads_it():
    text = '{"a": [1, 2.5, null, true, "x"], "b": ' + "[" * 100 + "]" * 100 + "}"
    assert parse_json(text) == json.loads(text)


def test_no_other_reader_of_json_stands_where_others_write():
    """Of what the program has dumped itself, in the same expression, it may read what it likes."""
    found = []
    for room in ("hooks", "probes", "analysis"):
        for path in sorted((ROOT / room).rglob("*.py")):
            place = path.relative_to(ROOT).as_posix()
            if place.startswith(OWN) or place == "probes/errors.py":
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module == "json":
                    found.append(f"{place}:{node.lineno}: from json import")
                if (
                    isinstance(node, ast.Call)
                    and ast.unparse(node.func) in ("json.load", "json.loads", "json.JSONDecoder")
                    and not (node.args and ast.unparse(node.args[0]).startswith("json.dumps("))
                ):
                    found.append(f"{place}:{node.lineno}: {ast.unparse(node.func)}")
    assert not found
