"""Folders of images for people to label: the images under names that say nothing of their prompts, and a CSV file."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np

from probes.runs.parts import write_bytes
from probes.runs.store import Run

FILE = "labels.csv"


def write_images(run: Run, out: Path, samples: Collection[str], *, seed: int) -> dict[str, str]:
    """Write images into a folder under names that say nothing of their prompts; return these by sample."""
    names = sorted(samples)
    numbers = np.random.default_rng(seed).permutation(len(names))
    files = {name: f"images/{number:05d}.png" for name, number in zip(names, numbers)}
    stored = run.samples(["sample_id", "image"])
    for row in stored[stored["sample_id"].isin(names)].itertuples():
        write_bytes(out / files[row.sample_id], row.image["bytes"])
    return files
