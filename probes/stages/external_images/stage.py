"""The generate stage of images of another program: they are read, and stored as if this one had generated them.

Parts have the layout of generated ones, without tokens, captures or word maps. A part is known by its prompts, its
seeds and the bytes of its images' files: a run is continued, or refused, by these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from hooks.prompt.spans import split_words
from probes.config.schema import Config
from probes.errors import UserError, printable
from probes.execution import loop
from probes.execution.loop import Part, RowsByKind, RowsOfKind, StageCall
from probes.execution.processes import Tick
from probes.locks import GATE, locked
from probes.prompts.prompt import asks_for_skills
from probes.runs import directory, parts, schemas
from probes.runs.images import UNREADABLE, fault_of_pixels, fault_of_size, read_header, read_image
from probes.runs.record import KINDS
from probes.runs.run import Run
from probes.stages.external_images.configuration import read_triplets
from probes.stages.external_images.table import find_source, read_image_bytes

OTHER_SIZE = "seeds of a triplet whose images differ in size"
ROWS = 30  # that are shown
_TAKEN_IN = "taken in"  # stands for the weights of a model in the identity of parts

# the columns of ``samples/`` but the image itself; its `place`, where it is `stored`, and the `digest` of its bytes
Image = Mapping[str, Any]


@dataclass(frozen=True)
class ExternalImages:
    """External images of a run, grouped by triplet and seed, and the record of their origin for ``run.json``."""

    triplets: list[list[Image]]
    record: dict[str, Any]

    @property
    def images(self) -> int:
        """The number of images."""
        return sum(map(len, self.triplets))

    def __str__(self) -> str:
        shown = [image for triplet in self.triplets[:ROWS] for image in triplet][:ROWS]
        width = max(len(image["sample_id"]) for image in shown)
        lines = [f"{'sample_id':<{width}}  prompt"]
        lines += [
            f"{image['sample_id']:<{width}}  {printable(' '.join(image['prompt'].split()))}"
            for image in shown
        ]
        if self.images > len(shown):
            lines.append(f"... and {self.images - len(shown)} more")
        return "\n".join([*lines, *self.lines])

    @property
    def lines(self) -> list[str]:
        """Lines for the user on images read and left out, and on columns and files skipped or read as others."""
        record = self.record
        unit = "triplet" if len(self.triplets[0]) > 1 else "prompt"
        alone = len(self.triplets[0]) == 1 or record["paired"]
        pairs = "" if alone else f"; no seeds, so that nothing pairs the images of a {unit}"
        if record["without_image"]:
            pairs += f"; {record['without_image']:,} prompts have no image"
        left = "; ".join(f"{number} {why}" for why, number in record["left_out"].items())
        where = f"{record['rows']} in {record['from']}, in {record['triplets']} {unit}s"
        line = f"images: {self.images} of the {where}{pairs}{f' (left out: {left})' if left else ''}"
        return [printable(text) for text in (line, *record["notes"])]


def plan(config: Config, file_name: str) -> ExternalImages:
    """Return the external images that a run of a configuration stores; all files are read, none is written."""
    assert config.images is not None
    path = find_source(config.images, Path())
    notes: list[str] = []
    read, rows = read_triplets(config, path, notes.append)
    if read.prompts != config.prompts or read.seeds != config.seeds:
        raise UserError(
            f"{path}: expected the prompts and seeds of {file_name}, found others: run it from triplets.yaml, with"
            " --overwrite or another --out"
        )
    sizes, numbers, left_out, triplets = set[str](), set[int](), Counter(read.left_out), []
    for (number, _), members in read.images.groupby(["number", "seed"], sort=False):
        if config.limit and number >= config.limit:
            break
        triplet, seen = [], set()
        for row in members.itertuples():
            data = read_image_bytes(row.image, row.Index)
            _, size = read_header(data)
            if size and not fault_of_size(*size):
                seen.add(f"{size[0]} x {size[1]}")
            triplet.append(_sample_columns(row, config, parts.digest(data)))
        if read.paired and len(seen) > 1:
            left_out[OTHER_SIZE] += 1
            continue
        sizes |= seen
        numbers.add(number)
        triplets.append(triplet)
    if not triplets:
        raise UserError(
            f"{path}: expected images of one size in a triplet, found none: store them with one size"
        )
    record = {
        "from": str(path),
        "rows": len(rows),
        "triplets": len(numbers),
        "without_image": len(config.prompts[: config.limit]) - len(numbers) if asks_for_skills(config) else 0,
        "paired": read.paired,
        "sizes": sorted(sizes),
        "left_out": dict(left_out),
        "notes": list(dict.fromkeys(notes)),
    }
    return ExternalImages(triplets, record)


def _sample_columns(row: Any, config: Config, digest: str) -> Image:
    """Return the columns of the table ``samples`` for an external image, with its row's place, its file and digest."""
    prompt, words = config.prompts[row.number], split_words(row.prompt)
    return {
        "sample_id": f"t{row.number:05d}-s{row.seed}-{row.indicator}",
        "triplet": row.number,
        "prompt_id": prompt.name(row.number),
        "template": prompt.template,
        "indicator": row.indicator,
        "word": config.indicators[row.indicator].word,
        "prompt": row.prompt,
        "negative_prompt": "",
        "seed": row.seed,
        "noise_seed": row.stated,
        "tokens": [],
        "words": [word for word, _ in words],
        "word_spans": [span for _, span in words],
        "word_positions": [],
        "indicator_positions": [],
        "place": row.Index,
        "stored": row.image,
        "digest": digest,
    }


@dataclass(frozen=True)
class ImageReader:
    """Work of the stage (:class:`probes.execution.processes.Work`): reads the external images of a part."""

    @contextmanager
    def opened(self) -> Iterator[Callable[[list[list[Image]], Tick], RowsByKind]]:
        """Yield the function that reads the images of triplets; nothing has to be loaded."""
        yield _read_images


def _read_images(triplets: list[list[Image]], tick: Tick) -> RowsByKind:
    """Return external images as rows of the table ``samples``; UserError if one was changed since the plan."""
    rows = []
    for image in chain.from_iterable(triplets):
        data = read_image_bytes(image["stored"], image["place"])
        if parts.digest(data) != image["digest"]:
            raise UserError(
                f"{image['place']}: expected the image to stay as it is, but it was changed: run again"
            )
        kind, size = read_header(data)
        fault = fault_of_size(*size) if size else None
        if not fault:  # what is wrong with it, as far as its bytes show
            try:
                fault = fault_of_pixels(np.asarray(read_image(data)))
            except ValueError:
                fault = UNREADABLE
        path = f"{image['sample_id']}{f'.{kind}' if kind else ''}"
        rows.append({**image, "fault": fault, "image": {"bytes": data, "path": path}})
        tick(1)
    return {"samples": RowsOfKind(rows, schemas.SAMPLES)}


def store_images(run: Run, config: Config, external: ExternalImages, command: StageCall) -> None:
    """Store all external images that the run does not hold yet, part by part, and record their origin."""
    began = monotonic()
    if command.overwrite:
        directory.clear(run)
    with locked(run.path / GATE):  # another process may begin the same run
        if not command.overwrite:
            run.reload_record()
        directory.require_same(run, config.resolved())
        before = (run.meta.get("part_fields") or {}).get("model", _TAKEN_IN)
        if before != _TAKEN_IN:
            raise directory.another_run_error(
                run, "model", f"weights {str(before)[:12]}", "images of another program"
            )
        size = config.generate.part_triplets
        all_parts = [
            _make_part(run, config, index, external.triplets[start : start + size])
            for index, start in enumerate(range(0, len(external.triplets), size))
        ]
        todo, damaged = loop.unfinished_parts(all_parts, partial(directory.part_of_another_run_error, run))
        if (count := len(run.parts("samples"))) > len(all_parts):  # such as of removed rows
            raise directory.another_run_error(run, "parts", count, len(all_parts))
        command.write_record(
            run,
            config,
            damaged,
            part_fields={"model": _TAKEN_IN},
            taken_in=external.record,
            parts=len(all_parts),
            images=external.images,
            **{KINDS: run.updated_part_counts(("samples",), len(all_parts))},
        )
    loop.make_parts(run, "take in", all_parts, todo, ImageReader(), command)
    loop.record_generated(run, began)


def _make_part(run: Run, config: Config, index: int, triplets: list[list[Image]]) -> Part:
    """Return part number `index` of the run, identified by indicators, prompts, seeds and digests of its images."""
    images = list(chain.from_iterable(triplets))
    fields = {
        "model": _TAKEN_IN,
        "indicators": [[name, entry.word] for name, entry in config.indicators.items()],
        "prompts": list(dict.fromkeys(image["prompt"] for image in images)),
        "seeds": [
            [triplet[0][name] for name in ("prompt_id", "triplet", "seed", "noise_seed")]
            for triplet in triplets
        ],
        "images": parts.digest("".join(image["digest"] for image in images)),
    }
    paths = {"samples": run.part_path("samples", index)}
    return Part(paths, parts.identity(index, fields), len(images), [triplets])
