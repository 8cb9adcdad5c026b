"""CONTRIBUTING.md names places that are there."""

import re
from pathlib import Path

from tests.test_imports import BELOW

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")


def test_paths_are_there():
    paths = re.findall(r"`([\w.]+(?:/[\w.]*)+)`", TEXT)
    assert len(set(paths)) > 20
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_commands_are_modules_that_are_there():
    modules = set(re.findall(r"python -m ([\w.]+)", TEXT))
    assert modules
    for name in modules:
        path = ROOT.joinpath(*name.split("."))
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), name


def test_the_table_of_rooms_is_the_one_that_is_tested():
    rows = re.findall(r"^\| `(\w+)` [^|]*\| ([^|]*) \|$", TEXT, re.M)
    said = {room: set(re.findall(r"`(\w+)`", below)) for room, below in rows}
    named = {room: set(below) for room, below in BELOW.items()}
    assert said.keys() == named.keys() | {"validation"}
    assert all(said[room] == named[room] for room in ("metrics", "tables", "report", "papers"))
    assert said["studies"] == {"report"} and said["observe"] == {"probes"} and not said["stats"]
