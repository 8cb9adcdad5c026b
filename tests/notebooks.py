"""Execute the notebooks and keep what they show: ``python -m tests.notebooks [NAME ...]``.

They are committed with their pictures, since many will only read them.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "notebooks"


def executed(path: Path) -> nbformat.NotebookNode:
    """Return a notebook with the outputs of a fresh kernel, and nothing that tells when or where it ran."""
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": path.parents[1]}}
    NotebookClient(notebook, timeout=3600, resources=resources, record_timing=False).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        cell["outputs"] = [one for one in cell.get("outputs", []) if one.get("name") != "stderr"]
        if cell.cell_type != "code":
            del cell["outputs"]
    return notebook


def main(names: Sequence[str]) -> None:
    """Execute the notebooks whose names begin so, or all."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        if not names or path.name.startswith(tuple(names)):
            text = nbformat.writes(executed(path)) + "\n"
            path.write_text(text, "utf-8")
            print(f"{path.name}: {len(text.encode()):,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
