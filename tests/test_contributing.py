"""CONTRIBUTING.md names places that are there."""

import re
from pathlib import Path

from tests.test_imports import BELOW

ROOT = Path(__file__).parents[1]
PATH = re.compile(r"`([\w.]+(?:/[\w.]*)+)`")
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")


def test_paths_are_there():
    paths = PATH.findall(TEXT)
    assert len(set(paths)) > 20
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_exercise_touches_what_the_table_names_and_nothing_else():
    first, _, second = TEXT.partition("## An exercise")
    second = second.partition("\n## ")[0]
    rows = {row[0]: " ".join(row[1:]) for row in cells(first)}
    done = {row[0]: row[2] for row in cells(second)}
    assert len(done) == 6
    for name, touched in done.items():
        named, paths = PATH.findall(rows[name]), PATH.findall(touched)
        assert paths, name
        for path in paths:  # a row that names a folder names what is in it
            assert path in named or f"{path.rpartition('/')[0]}/" in named, (name, path)


def cells(text: str) -> list[list[str]]:
    """The rows of the Markdown tables of a text, without head and rule."""
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows][2:]


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
