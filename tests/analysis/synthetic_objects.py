"""Made-up detections for `synthetic_run`: which object is in which image is known, and what the detector misses.

The noun of the prompt is drawn most of the time; a dress goes with feminine and a tie with masculine prompts, and the
reference has each as often as `Plan.lean` says. A wall stands in every image.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np
import pandas as pd

from probes.runs import parts, schemas
from probes.runs.images import encode_mask
from probes.runs.run import Run
from tests.analysis.synthetic_run import OBJECTS, Plan, _members, _sample_id

KEYS = ("sample_id", "triplet", "seed", "indicator")
ENGINE = {"engine": "made up", "detector": "made up", "segmenter": "made up"}


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


def detections(plan: Plan, missed: float = 0.0, often: float = 1.0) -> pd.DataFrame:
    """A row a detection, with a rectangle as its mask; `missed` of those of feminine prompts are left out, and as
    many of all as `often` is below 1.
    """
    rng = np.random.default_rng([plan.seed, 5])
    rows = []
    for t, s, (name, entry) in _members(plan):
        place = min(max(plan.place(name), 0.0), 1.0)
        chances = {OBJECTS[t % len(OBJECTS)]: 0.85, entry["word"]: 0.95, "wall": 1.0}
        chances |= {"dress": 0.05 + 0.8 * (1 - place), "tie": 0.05 + 0.7 * place, "cup": 0.3}
        number = 0
        for label, chance in chances.items():
            there = rng.random() < often * chance
            seen = rng.random() >= (missed if name == "feminine" else 0)
            x, y, w, h = rng.integers((2, 2, 8, 8), (plan.size // 2, plan.size // 2, 24, 24))
            if there and seen:
                row = (
                    _sample_id(t, s, name),
                    t,
                    s,
                    name,
                    number,
                    label,
                    "prompt",
                    float(rng.uniform(0.3, 1)),
                )
                rows.append((*row, int(x), int(y), int(x + w), int(y + h)))
                number += 1
    columns = ["sample_id", "triplet", "seed", "indicator", "object", "label", "source", "score"]
    return pd.DataFrame(rows, columns=[*columns, "x0", "y0", "x1", "y1"])


def add_objects(
    path: str | Path, missed: float = 0.0, often: float = 1.0, unreadable: Collection[str] = (), **options
) -> Path:
    """Write ``observed/`` and ``objects/`` into a run of `write_run` with the same options; return its path."""
    plan, path = Plan(**options), Path(path)
    found = detections(plan, missed, often)
    found = found[~found["sample_id"].isin(unreadable)]
    rows = []
    for row in found.to_dict("records"):
        mask = np.zeros((plan.size, plan.size), bool)
        mask[row["y0"] : row["y1"], row["x0"] : row["x1"]] = True
        rows.append(detection({}, row["object"], row["label"], mask) | row)
    kept = found["sample_id"].value_counts()
    keys = [(_sample_id(t, s, name), t, s, name) for t, s, (name, _) in _members(plan)]
    images = [
        observation(
            dict(zip(KEYS, key)), "unreadable" if key[0] in unreadable else "ok", int(kept.get(key[0], 0))
        )
        for key in keys
    ]
    for number, file in enumerate(Run.open(path).parts("samples")):
        drawn = {*parts.read_part(file, ["sample_id"])["sample_id"].to_pylist()}
        for kind, all_rows, schema in (
            ("objects", rows, schemas.OBJECTS),
            ("observed", images, schemas.OBSERVED),
        ):
            own = [row for row in all_rows if row["sample_id"] in drawn]
            ident = parts.identity(number, {"plan": "synthetic"})
            parts.write_part(path / kind / file.name, own, schema, ident)
    Run.open(path).write_meta(status="observed", observer=ENGINE)
    return path
