"""A run as a dataset of the Hugging Face Hub: ``data/`` for the viewer, ``tables/``, the report and a dataset card."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from analysis.export.cards.dataset import hub_card
from analysis.export.images import image_parts
from analysis.export.viewer import viewer_bytes

if TYPE_CHECKING:
    from probes.runs.store import Run

_BESIDE = ("triplets.yaml", "report.html")


def write(run: Run, out: Path) -> None:
    """Write a run as a dataset into a folder."""
    (out / "data").mkdir(parents=True)
    detected = bool(run.parts("objects"))
    for number, images in enumerate(image_parts(run)):
        (out / f"data/images-{number:05d}.parquet").write_bytes(viewer_bytes(images, detected=detected))
    (out / "tables").mkdir()
    for name in run.tables():
        (out / f"tables/{name}.parquet").write_bytes((run.path / f"tables/{name}.parquet").read_bytes())
    for name in _BESIDE:
        if (run.path / name).exists():
            (out / name).write_bytes((run.path / name).read_bytes())
    (out / "README.md").write_text(hub_card(run), encoding="utf-8")
