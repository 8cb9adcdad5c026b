"""The generate stage of images that another program drew: they are read, and stored as if this one had drawn them.

Parts have the layout of drawn ones, without tokens, captures or word maps. A part is known by its prompts, its seeds
and the content of its images, byte for byte as they stood in their files: a run goes on, and is refused, by these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from hooks.prompt.spans import split_words
from probes.config.schema import Config
from probes.errors import UserError, printable
from probes.execution import loop
from probes.execution.command import StageCall
from probes.execution.part import Part, Piece, RowsOfKind
from probes.execution.processes import Tick
from probes.locks import GATE, locked
from probes.runs import directory, image_faults, parts, schemas
from probes.runs.images import read_header, read_image
from probes.runs.record import KINDS
from probes.runs.run import Run
from probes.stages.external_images.audits import has_ids
from probes.stages.external_images.configuration import grouped
from probes.stages.external_images.table import ImageRow, read_bytes
from probes.stages.external_images.triplets import Draw

OTHER_SIZE = "seeds of a triplet whose images differ in size"
ROWS = 30  # that are shown
_TAKEN_IN = "taken in"  # stands for the weights of a model in the identity of parts


@dataclass(frozen=True)
class TakenImage:
    """An image to be stored: its row, the columns of ``samples/`` but the image, and a digest of its bytes."""

    row: ImageRow
    columns: dict[str, Any]
    digest: str


@dataclass(frozen=True)
class Taken:
    """The draws that are taken in, and what ``run.json`` keeps of where they come from."""

    draws: list[list[TakenImage]]
    record: dict[str, Any]

    @property
    def images(self) -> int:
        """Images of all draws."""
        return sum(map(len, self.draws))

    def __str__(self) -> str:
        shown = [image for draw in self.draws for image in draw][:ROWS]
        width = max(len(image.columns["sample_id"]) for image in shown)
        lines = [f"{'sample_id':<{width}}  prompt"]
        lines += [
            f"{image.columns['sample_id']:<{width}}  {printable(' '.join(image.row.prompt.split()))}"
            for image in shown
        ]
        if self.images > len(shown):
            lines.append(f"... and {self.images - len(shown)} more")
        return "\n".join([*lines, self.line, *self.notes])

    @property
    def line(self) -> str:
        """Summary of the imported images in one line."""
        record = self.record
        unit = "triplet" if len(self.draws[0]) > 1 else "prompt"
        alone = len(self.draws[0]) == 1 or record["paired"]
        pairs = "" if alone else f"; no seeds, so that nothing pairs the images of a {unit}"
        if record["without_image"]:
            pairs += f"; {record['without_image']:,} prompts have no image"
        left = "; ".join(f"{number} {why}" for why, number in record["left_out"].items())
        where = f"{record['rows']} in {record['from']}, in {record['triplets']} {unit}s"
        line = f"images: {self.images} of the {where}{pairs}{f' (left out: {left})' if left else ''}"
        return printable(line)

    @property
    def notes(self) -> list[str]:
        """Lines on columns and files that were not read, or read as others."""
        return [printable(line) for line in self.record["notes"]]


def plan(config: Config, place: str) -> Taken:
    """Read all images of a configuration; nothing is written."""
    assert config.images is not None
    path = Path(config.images.from_)
    if not path.exists():
        raise UserError(f"{place}: images.from: expected images at {path}, found none: put them back")
    notes: list[str] = []
    read = grouped(config, path, notes.append)
    if read.prompts != config.prompts or read.seeds != config.seeds:
        raise UserError(
            f"{path}: expected the prompts and seeds of {place}, found others: run it from triplets.yaml, with"
            " --overwrite or another --out"
        )
    sizes, left_out = Counter[str](), Counter(read.left_out)
    draws = []
    for draw in read.draws:
        if config.limit and draw.triplet >= config.limit:
            break
        taken, seen = _read(draw, config)
        if read.paired and len(seen) > 1:
            left_out[OTHER_SIZE] += 1
            continue
        sizes.update(f"{width} x {height}" for width, height in seen)
        draws.append(taken)
    if not draws:
        raise UserError(
            f"{path}: expected images of one size in a triplet, found none: store them with one size"
        )
    there = {draw[0].columns["triplet"] for draw in draws}
    record = {
        "from": str(path),
        "rows": read.rows,
        "triplets": len(there),
        "without_image": len(config.prompts[: config.limit]) - len(there) if has_ids(config.prompts) else 0,
        "paired": read.paired,
        "sizes": sorted(sizes),
        "left_out": dict(left_out),
        "notes": list(dict.fromkeys(notes)),
    }
    return Taken(draws, record)


def _read(draw: Draw, config: Config) -> tuple[list[TakenImage], set[tuple[int, int]]]:
    """The images of a draw, and the sizes of those that can be read and compared."""
    taken, sizes = [], set()
    prompt = config.prompts[draw.triplet]
    for (name, entry), row in zip(config.indicators.items(), draw.rows):
        data = read_bytes(row.image, row.at)
        _, size = read_header(data)
        sizes |= {size} if size and not image_faults.fault_of_size(*size) else set()
        read = split_words(row.prompt)
        columns = {
            "sample_id": f"t{draw.triplet:05d}-s{draw.seed}-{name}",
            "triplet": draw.triplet,
            "prompt_id": prompt.name(draw.triplet),
            "template": prompt.template,
            "indicator": name,
            "word": entry.word,
            "prompt": row.prompt,
            "negative_prompt": "",
            "seed": draw.seed,
            "noise_seed": draw.stated,
            "tokens": [],
            "words": [word for word, _ in read],
            "word_spans": [span for _, span in read],
            "word_positions": [],
            "word_positions_2": None,
            "indicator_positions": [],
        }
        taken.append(TakenImage(row, columns, parts.digest(data)))
    return taken, sizes


@dataclass(frozen=True)
class Storing:
    """Reads the images of a part (:class:`probes.execution.processes.Work`)."""

    @contextmanager
    def opened(self) -> Iterator[Callable[[list[list[TakenImage]], Tick], Piece]]:
        """Nothing is loaded; gives the function that reads some draws."""
        yield _stored


def _stored(draws: list[list[TakenImage]], tick: Tick) -> Piece:
    rows = []
    for image in (image for draw in draws for image in draw):
        data = read_bytes(image.row.image, image.row.at)
        if parts.digest(data) != image.digest:
            raise UserError(
                f"{image.row.at}: expected the image to stay as it is, but it was changed: run again"
            )
        kind, size = read_header(data)
        path = f"{image.columns['sample_id']}{f'.{kind}' if kind else ''}"
        rows.append({**image.columns, "fault": _fault(data, size), "image": {"bytes": data, "path": path}})
        tick(1)
    return {"samples": RowsOfKind(rows, schemas.SAMPLES)}


def _fault(data: bytes, size: tuple[int, int] | None) -> str | None:
    """Return what is wrong with an image, as far as its bytes show."""
    if size and (fault := image_faults.fault_of_size(*size)):
        return fault
    try:
        return image_faults.fault_of_pixels(np.asarray(read_image(data)))
    except ValueError:
        return image_faults.UNREADABLE


def take_in(run: Run, config: Config, taken: Taken, command: StageCall) -> None:
    """Store every image of the plan that the run does not hold yet."""
    began = monotonic()
    command.cleared(run)
    with locked(run.path / GATE):  # another process may begin the same run
        if not command.overwrite:
            run.read_again()
        directory.require_same(run, config.resolved())
        before = (run.meta.get("part_fields") or {}).get("model", _TAKEN_IN)
        if before != _TAKEN_IN:
            raise directory.another_run(
                run, "model", f"weights {str(before)[:12]}", "images of another program"
            )
        made = _parts(run, config, taken)
        damaged: list[parts.DamagedPartError] = []
        todo = loop.pending(made, partial(directory.part_of_another_run, run), damaged.append)
        if (count := len(run.parts("samples"))) > len(made):  # such as of removed rows
            raise directory.another_run(run, "parts", count, len(made))
        command.record(
            run,
            config,
            damaged,
            part_fields={"model": _TAKEN_IN},
            taken_in=taken.record,
            parts=len(made),
            images=taken.images,
            **{KINDS: run.with_kinds(("samples",), len(made))},
        )
    with command.helping() as helpers:
        loop.make("take in", made, todo, Storing(), helpers, progress=command.progress)
    loop.record_generated(run, began)


def _parts(run: Run, config: Config, taken: Taken) -> list[Part]:
    size = config.generate.part_triplets
    chunks = [taken.draws[start : start + size] for start in range(0, len(taken.draws), size)]
    return [
        Part(
            paths={"samples": run.part_path("samples", index)},
            identity=parts.identity(index, _fields(config, chunk)),
            images=sum(map(len, chunk)),
            pieces=[chunk],
        )
        for index, chunk in enumerate(chunks)
    ]


def _fields(config: Config, chunk: Sequence[Sequence[TakenImage]]) -> dict[str, Any]:
    """All that alters the content of a part."""
    images = [image for draw in chunk for image in draw]
    first = [draw[0].columns for draw in chunk]
    return {
        "model": _TAKEN_IN,
        "indicators": [[name, entry.word] for name, entry in config.indicators.items()],
        "prompts": list(dict.fromkeys(image.row.prompt for image in images)),
        "seeds": [[one["prompt_id"], one["triplet"], one["seed"], one["noise_seed"]] for one in first],
        "images": parts.digest("".join(image.digest for image in images)),
    }
