"""Every notebook runs from top to bottom, and defines nothing."""

import ast
import re

import nbformat
import pytest
from jupyter_client.provisioning import local_provisioner

from tests.forked import ROOT, Forked
from tests.notebooks import FOLDER, executed

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
ELSEWHERE = (
    "00_ten_tasks"  # its cells are run, and what they show is looked at, by `tests/test_public_face.py`
)
LARGEST = 400_000  # bytes
FEWER_STEPS = {"04_is_it_chance": ("steps: 8", "steps: 3"), "07_dalleval": ("steps: 8", "steps: 3")}


def test_there_are_notebooks():
    assert NOTEBOOKS


@pytest.fixture
def forked_kernel(monkeypatch):
    """A fresh kernel, forked from a process that has loaded the libraries."""

    def launch(command, *, cwd=ROOT, **options):
        assert command[1] == "-m"
        return Forked(*command[2:], cwd=cwd)

    monkeypatch.setattr(local_provisioner, "launch_kernel", launch)


def pictures(notebook):
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [output for output in shown if "image/png" in output.get("data", {})]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_committed_with_what_they_show(path):
    """``python -m tests.notebooks`` makes them."""
    notebook = nbformat.read(path, as_version=4)
    assert path.stat().st_size <= LARGEST and pictures(notebook)
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
    assert not re.search(r"/tmp/|/home/|/root/|[A-Z]:\\\\Users", path.read_text("utf-8"))


def test_files_in_a_temporary_folder_go_by_their_names_there(tmp_path, forked_kernel):
    source = """
import tempfile
from pathlib import Path

folder = Path(tempfile.mkdtemp())
print(f"done in {folder / 'run'}")
folder / "run"
"""
    path = tmp_path / "notebooks" / "a.ipynb"
    path.parent.mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)]), path)
    printed, shown = executed(path).cells[0].outputs
    assert printed.text == "done in run\n"
    assert shown.data["text/plain"] == "PosixPath('run')"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_defines_nothing(path):
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            source = "\n".join(line for line in cell.source.splitlines() if not line.startswith("%"))
            kinds = {type(node) for node in ast.walk(ast.parse(source))}
            assert not kinds & {ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef}


@pytest.mark.parametrize(
    "path", [path for path in NOTEBOOKS if path.stem != ELSEWHERE], ids=lambda path: path.stem
)
def test_notebook_runs(path, tmp_path, forked_kernel):
    """Some of them in fewer steps than they are committed with: drawing takes most of their time."""
    if path.stem in FEWER_STEPS:
        text, (many, few) = path.read_text("utf-8"), FEWER_STEPS[path.stem]
        assert text.count(many) == 1
        path = tmp_path / "notebooks" / path.name
        path.parent.mkdir()
        path.write_text(text.replace(many, few), "utf-8")
    assert pictures(executed(path))
