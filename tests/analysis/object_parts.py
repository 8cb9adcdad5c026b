"""Made-up detections for a synthetic run: what the observe stage would have stored."""

from __future__ import annotations

import numpy as np

from probes.runs import parts, schemas
from probes.runs.images import encode_mask
from probes.runs.run import Run

KEYS = ("sample_id", "triplet", "seed", "indicator")
LABELS = ("person", "tie", "hat", "umbrella", "dogs", "tree")


def detection(sample, number, label, mask):
    """A row of ``objects/``."""
    sides = dict.fromkeys(("x0", "y0", "x1", "y1"), 0.0)
    seen = {"source": "vocabulary", "score": 0.9, "area": int(mask.sum()), "mask": encode_mask(mask)}
    return {**sample, **sides, **seen, "object": number, "label": label} | dict(
        zip(("height", "width"), mask.shape)
    )


def observation(sample, status="ok", kept=0):
    """A row of ``observed/``."""
    counts = dict.fromkeys(("dropped_empty", "dropped_merged", "dropped_unknown", "dropped_overlap"), 0)
    reason = "" if status == "ok" else "damaged"
    return {
        **sample,
        **counts,
        "status": status,
        "reason": reason,
        "detected": kept,
        "kept": kept,
        "tags": ["hat"],
    }


def add_objects(path, *, seed=0, often=1.0, unreadable=(), size=64):
    """Detections of random size and place in every image of a run; `often` for each label on average."""
    rng, run = np.random.default_rng(seed), Run.open(path)
    for number, file in enumerate(run.parts("samples")):
        rows, seen = [], []
        for sample in parts.read_part(file, list(KEYS)).to_pylist():
            readable = sample["sample_id"] not in unreadable
            labels = [label for label in LABELS for _ in range(rng.poisson(often))] if readable else []
            for index, label in enumerate(labels):
                mask = np.zeros((size, size), bool)
                top, left, height, width = rng.integers(4, size // 2, 4)
                mask[top : top + height, left : left + width] = True
                rows.append(detection(sample, index, label, mask))
            seen.append(observation(sample, "ok" if readable else "unreadable", len(labels)))
        identity = parts.identity(number, {"plan": "synthetic"})
        parts.write_part(run.part_path("objects", number), rows, schemas.OBJECTS, identity)
        parts.write_part(run.part_path("observed", number), seen, schemas.OBSERVED, identity)
