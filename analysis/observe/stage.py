"""The observe stage: look at every stored image and store what was seen, part by part.

``objects/part-N`` and ``observed/part-N`` are made from ``samples/part-N`` and nothing else, so they carry its
digest and all that alters what is seen. A run that was interrupted goes on at the first part that is missing
and ends with the same bytes. An image that cannot be read is recorded, skipped and counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from analysis.observe.objects.detection import DROPPED, Engine, Found
from analysis.observe.objects.engines import Plan, plan
from analysis.observe.objects.tags import Tags
from probes import parts
from probes.coco_masks import encode
from probes.errors import UserError
from probes.store import Run, read_image

_IDENTITY = ("sample_id", "triplet", "seed", "indicator")


@dataclass(frozen=True)
class _Job:
    """What every part of a run has in common."""

    run: Run
    engine: Engine
    tags: Tags
    fields: dict[str, Any]
    batch: int


def observe(run: Run, *, progress: bool = True) -> Plan:
    """Look at every image of a run that was not looked at yet.

    Parameters
    ----------
    run
        The run directory, held by :func:`probes.rundir.claim`; what to look for and with what is in its
        configuration, section ``observe``.
    progress
        Show a progress bar.

    Returns
    -------
    Plan
        What was done; with ``skipped`` set, nothing was.

    Raises
    ------
    UserError
        The engine or a checkpoint is not there, a part is damaged, or the run was observed in another way.
    """
    chosen = plan(run.config)
    if chosen.skipped:
        return chosen
    fields = chosen.fields()
    files = run.parts("samples")
    todo = [file for file in files if not _finished(run, file, fields)]
    if todo:
        job = _Job(run, chosen.engine(), chosen.tags(), fields, chosen.batch)
        total, left = (sum(_rows(file) for file in some) for some in (files, todo))
        layout = "{desc}: {percentage:3.0f}%|{bar}| {n:.0f}/{total:.0f} images [{elapsed}, {remaining} left]"
        with tqdm(
            total=total, initial=total - left, desc="observe", disable=not progress, bar_format=layout
        ) as bar:
            for file in todo:
                _part(job, file, bar)
    config = {**run.meta["config"], "resolved": {**run.config, "observe": chosen.resolved}}
    run.write_meta(config=config, observer={**chosen.record(), "counts": counts(run)})
    return chosen


def counts(run: Run) -> dict[str, int]:
    """How many images were looked at, could not be read, and what became of the candidates."""
    numbers = [
        name for name in parts.OBSERVED.names if name.startswith("dropped_") or name in ("detected", "kept")
    ]
    frame = run.observed(["status", *numbers])
    return {
        "images": len(frame),
        "unreadable": int((frame["status"] == "unreadable").sum()),
        **{name: int(frame[name].sum()) for name in numbers},
    }


def _rows(file: Path) -> int:
    return len(parts.read_part(file, ["sample_id"]))


def _number(file: Path) -> int:
    return int(re.fullmatch(r"part-(\d+)", file.stem)[1])


def _ident(file: Path, fields: Mapping[str, Any]) -> dict[str, Any]:
    made_from = parts.read_identity(file)
    # tables made elsewhere carry no digest of their columns
    samples = parts.digest(repr(made_from["content"])) if "content" in made_from else _file_digest(file)
    return parts.identity(_number(file), {**fields, "samples": samples})


def _file_digest(file: Path) -> str:
    return parts.digest(file.read_bytes())


def _finished(run: Run, file: Path, fields: Mapping[str, Any]) -> bool:
    """Whether both files of a part are there; refuses those made in another way."""
    paths = [run.part_path(kind, _number(file)) for kind in ("objects", "observed")]
    wanted = _ident(file, fields)
    for path in paths:
        if path.exists():
            found = parts.read_identity(path)
            if found.get("hash") != wanted["hash"]:
                old, new = found.get("fields", {}), wanted["fields"]
                name = next((key for key in {**new, **old} if old.get(key) != new.get(key)), "format")
                raise UserError(
                    f"{path}: was made with {name} {_short(old.get(name))}, expected {_short(new.get(name))}: use"
                    " --stage observe --overwrite to look at the images anew, or another --out"
                )
            parts.read_part(path)
    return all(path.exists() for path in paths)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _part(job: _Job, file: Path, bar: tqdm) -> None:
    """Look at one part and write its files, the rows of images last."""
    table = parts.read_part(file, [*_IDENTITY, "prompt", "image"])
    objects: list[dict[str, Any]] = []
    observed: list[dict[str, Any]] = []
    for start in range(0, len(table), job.batch):
        rows = table.slice(start, job.batch).to_pylist()
        for row, image, found, tags in _look(job, rows):
            own = {name: row[name] for name in _IDENTITY}
            observed.append(own | _observation(image, found, tags))
            objects += [own | entry for entry in _entries(found, tags)] if found else []
        bar.update(len(rows))
    ident = _ident(file, job.fields)
    for kind, entries, schema in (
        ("objects", objects, parts.OBJECTS),
        ("observed", observed, parts.OBSERVED),
    ):
        parts.write_part(job.run.part_path(kind, ident["part"]), entries, schema, ident)


def _look(
    job: _Job, rows: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[Mapping[str, Any], np.ndarray | str, Found | None, dict[str, str]]]:
    """Each row with its image (or why it cannot be read), what was found in it and the source of each tag."""
    images = [_decoded(row["image"]) for row in rows]
    readable = [index for index, image in enumerate(images) if isinstance(image, np.ndarray)]
    tags = dict(zip(readable, job.tags([images[i] for i in readable], [rows[i]["prompt"] for i in readable])))
    searched = [index for index in readable if tags[index]]
    found = job.engine.detect([images[i] for i in searched], [list(tags[i]) for i in searched])
    results = dict(zip(searched, found))
    for index, row in enumerate(rows):
        yield row, images[index], results.get(index), tags.get(index, {})


def _decoded(encoded: Mapping[str, Any] | None) -> np.ndarray | str:
    """An image as ``(height, width, 3)`` uint8, or why it cannot be read."""
    try:
        return np.asarray(read_image((encoded or {}).get("bytes")))
    except ValueError as error:
        return str(error)


def _observation(image: np.ndarray | str, found: Found | None, tags: Mapping[str, str]) -> dict[str, Any]:
    unreadable = isinstance(image, str)
    dropped = Counter(found.dropped if found else {})
    kept = len(found.detections) if found else 0
    return {
        "status": "unreadable" if unreadable else "ok",
        "reason": image if unreadable else "" if tags else "no tag to look for",
        "detected": kept + dropped.total(),
        "kept": kept,
        **{f"dropped_{why}": dropped[why] for why in DROPPED},
        "tags": list(tags),
    }


def _entries(found: Found, tags: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for number, detection in enumerate(found.detections):
        height, width = detection.mask.shape
        yield {
            "object": number,
            "label": detection.label,
            "source": tags[detection.label],
            "score": detection.score,
            **dict(zip(("x0", "y0", "x1", "y1"), detection.box)),
            "area": int(detection.mask.sum()),
            "mask": encode(detection.mask),
            "height": height,
            "width": width,
        }
