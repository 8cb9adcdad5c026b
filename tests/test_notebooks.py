"""Every notebook runs from top to bottom, takes public names alone, and says nothing that its outputs do not show."""

import ast
import base64
import re

import nbformat
import pytest
from jupyter_client.provisioning import local_provisioner
from nbclient.exceptions import CellExecutionError

import triptych
from tests.forked import ROOT, Forked
from tests.notebooks import FOLDER, executed

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
# its cells are run, and what they show is looked at, by `tests/test_public_face.py`
ELSEWHERE = "00_ten_tasks"
LARGEST = 400_000  # bytes
LARGEST_PICTURE = 150_000
LONGEST = 4  # lines of text between two cells of code, without headings
WIDEST = 280  # characters of a line
LIBRARIES = {"tempfile", "pathlib", "matplotlib", "numpy", "torch", "triptych"}


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


def code_of(notebook):
    return [ast.parse(cell.source) for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_take_public_names_alone_and_define_nothing(path):
    for tree in code_of(nbformat.read(path, as_version=4)):
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
    cells = nbformat.read(path, as_version=4).cells
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


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_their_pictures_are_small(path):
    for output in pictures(nbformat.read(path, as_version=4)):
        assert len(base64.b64decode(output["data"]["image/png"])) <= LARGEST_PICTURE


def test_a_sentence_that_is_not_true_is_found(tmp_path, forked_kernel):
    path = tmp_path / "notebooks" / "a.ipynb"
    path.parent.mkdir()
    code, text = nbformat.v4.new_code_cell("n = 2\nn"), nbformat.v4.new_markdown_cell("n is two")
    text.metadata["holds"] = "n == 2"
    nbformat.write(nbformat.v4.new_notebook(cells=[code, text, code.copy()]), path)
    cells = executed(path).cells
    assert [cell.get("execution_count") for cell in cells] == [1, None, 2]
    text.metadata["holds"] = "n == 3"
    nbformat.write(nbformat.v4.new_notebook(cells=[code, text]), path)
    with pytest.raises(CellExecutionError, match="assert n == 3"):
        executed(path)


RUN = [path for path in NOTEBOOKS if path.stem != ELSEWHERE]


@pytest.mark.parametrize(
    "path",
    [*RUN[:2], *(pytest.param(path, marks=pytest.mark.slow) for path in RUN[2:])],
    ids=[path.stem for path in RUN],
)
def test_notebook_runs(path, forked_kernel):
    """And what its last sentence says of its figure is true."""
    assert pictures(executed(path))
