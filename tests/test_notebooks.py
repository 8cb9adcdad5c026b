"""Every notebook runs from top to bottom, takes public names alone, and says nothing that its outputs do not show."""

import ast
import base64
import re

import nbformat
import pytest

import triptych
from tests.notebooks import FOLDER, executed

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
MOST_CELLS = 12
LARGEST = 400_000  # bytes
LARGEST_PICTURE = 150_000
LONGEST = 4  # lines of text between two cells of code, without headings
WIDEST = 280  # characters of a line
LIBRARIES = {"tempfile", "pathlib", "matplotlib", "numpy", "torch", "triptych"}


def pictures(notebook):
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [output for output in shown if "image/png" in output.get("data", {})]


def read(path):
    return nbformat.read(path, as_version=4)


def test_notebooks_are_committed_with_small_pictures_of_what_they_show():
    """``python -m tests.notebooks`` makes them."""
    assert NOTEBOOKS
    for path in NOTEBOOKS:
        notebook = read(path)
        assert path.stat().st_size <= LARGEST and pictures(notebook), path
        assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code"), path
        assert not re.search(r"/tmp/|/home/|/root/|[A-Z]:\\\\Users", path.read_text("utf-8")), path
        for output in pictures(notebook):
            assert len(base64.b64decode(output["data"]["image/png"])) <= LARGEST_PICTURE, path


def code_of(notebook):
    return [ast.parse(cell.source) for cell in notebook.cells if cell.cell_type == "code"]


def test_notebooks_take_public_names_alone_and_define_nothing():
    for tree in (tree for path in NOTEBOOKS for tree in code_of(read(path))):
        for node in ast.walk(tree):
            assert not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef | ast.Lambda)
            if isinstance(node, ast.Import):
                assert {one.name.split(".")[0] for one in node.names} <= LIBRARIES
            if isinstance(node, ast.ImportFrom):
                assert node.module == "pathlib", ast.unparse(node)
            if isinstance(node, ast.Attribute):
                assert (not node.attr.startswith("_") and node.attr != "run") or ast.unparse(
                    node
                ) == "triptych.run"
                if isinstance(node.value, ast.Name) and node.value.id == "triptych":
                    assert node.attr in triptych.__all__, ast.unparse(node)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_short_and_end_in_a_figure_of_which_a_sentence_is_true(path):
    """The sentence is checked where the notebook is executed: see `tests.notebooks`."""
    cells = read(path).cells
    assert len(cells) <= MOST_CELLS
    assert "\n\nAfter this notebook you can " in cells[0].source
    for cell in (cell for cell in cells if cell.cell_type == "markdown"):
        lines = [line for line in cell.source.splitlines() if line and not line.startswith("#")]
        assert len(lines) <= LONGEST and all(len(line) <= WIDEST for line in lines), cell.source
        said = re.sub(
            r"`[^`]*`|\]\([^)]*\)|^#.*$|\([^()]*\d{4}[^()]*\)|task \d+", "", cell.source, flags=re.M
        )
        assert not re.search(r"\d", said), f"a number that no output bears out: {said}"
    figure, caption = cells[-2:]
    (shown,) = (output.data for output in figure.outputs)
    assert "image/png" in shown or "<img" in shown.get("text/html", "")
    assert caption.cell_type == "markdown" and caption.metadata.holds and caption.source.startswith("*")


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path):
    """And what its last sentence says of its figure is true."""
    assert pictures(executed(path))
