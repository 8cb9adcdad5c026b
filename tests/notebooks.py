"""Execute the notebooks and keep what they show: ``python -m tests.notebooks [NAME ...]``.

They are committed with their pictures, since many will only read them. A cell of text whose metadata has ``holds`` says
what this expression, of the names at that place, is true for: executing the notebook fails where it is not.
"""

import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "notebooks"
# what `tempfile` names is another folder each time
TEMPORARY = re.compile(rf"{re.escape(tempfile.gettempdir())}/tmp[a-z0-9_]{{8}}/")


def executed(path: Path) -> nbformat.NotebookNode:
    """Return a notebook with the outputs of a fresh kernel, and nothing that tells when or where it ran."""
    notebook = nbformat.read(path, as_version=4)
    shown = notebook.cells
    notebook.cells = [one for cell in shown for one in (cell, *_checks(cell))]
    options = {"timeout": 3600, "record_timing": False, "coalesce_streams": True}
    NotebookClient(notebook, resources={"metadata": {"path": path.parents[1]}}, **options).execute()
    notebook.cells = shown
    for number, cell in enumerate((cell for cell in shown if cell.cell_type == "code"), start=1):
        cell.execution_count = number
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = number
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        cell["outputs"] = [one for one in cell.get("outputs", []) if one.get("name") != "stderr"]
        for output in cell["outputs"]:
            _without_temporary_names(output)
        if cell.cell_type != "code":
            del cell["outputs"]
    return notebook


def _checks(cell: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """What a cell of text says of the outputs before it, as code that fails where it is not so: `holds` of the cell."""
    holds = cell.metadata.get("holds")
    return [nbformat.v4.new_code_cell(f"assert {holds}")] if holds else []


def _without_temporary_names(output: nbformat.NotebookNode) -> None:
    """Write the path of a file in a temporary folder as it is within that folder, in an output's texts."""
    data = output.get("data", {})
    for holder, key in ((output, "text"), (data, "text/plain"), (data, "text/html")):
        if key in holder:
            holder[key] = TEMPORARY.sub("", holder[key])


def main(names: Sequence[str]) -> None:
    """Execute the notebooks whose names begin so, or all."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        if not names or path.name.startswith(tuple(names)):
            text = nbformat.writes(executed(path)) + "\n"
            path.write_text(text, "utf-8")
            print(f"{path.name}: {len(text.encode()):,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
