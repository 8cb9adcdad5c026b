"""CSV: every result table of a run, ``images.csv`` and ``detections.csv``, without pixels and masks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from probes.csv_text import csv_bytes

if TYPE_CHECKING:
    from probes.runs.run import Run

_SAMPLES = (
    *("sample_id", "triplet", "prompt_id", "template", "indicator", "word", "prompt", "negative_prompt"),
    *("seed", "noise_seed", "fault"),
)


def write(run: Run, out: Path) -> None:
    """Write the tables of a run as CSV into a folder."""
    out.mkdir(parents=True)
    frames = {"images": run.samples(_SAMPLES)}
    if run.parts("objects"):
        frames["detections"] = run.read("objects").drop(columns="mask")
    for name, frame in frames.items():
        (out / f"{name}.csv").write_bytes(csv_bytes(frame))
    for name in run.tables():
        (out / f"{name}.csv").write_bytes(csv_bytes(run.table(name)))
