"""Every notebook runs from top to bottom, and defines nothing."""

import ast
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def test_there_are_notebooks():
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_and_defines_nothing(path):
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            source = "\n".join(line for line in cell.source.splitlines() if not line.startswith("%"))
            kinds = {type(node) for node in ast.walk(ast.parse(source))}
            assert not kinds & {ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef}
    NotebookClient(notebook, timeout=3600, resources={"metadata": {"path": path.parents[1]}}).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in shown)
