"""The one loop over the parts of a stage: which are due, each made in pieces and written whole, with progress.

A part is what is stored, resumed and refused; a piece of it (a batch) is what a process works on. Pieces are shared
out in order among the workers (:mod:`probes.execution.team`), and this process alone writes each part when its last
piece is there. How a part is cut into pieces is the stage's to fix, and never depends on the workers: so their number
alters no byte.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from time import monotonic
from typing import Any

from tqdm import tqdm

from probes.errors import UserError
from probes.execution.part import Part, Piece, write
from probes.execution.team import Team, Work
from probes.runs import directory, image_faults
from probes.runs import parts as files
from probes.runs.identity import differing
from probes.runs.store import Run

_LAYOUT = "{desc}: {percentage:3.0f}%|{bar}| {n:.0f}/{total:.0f} images [{elapsed}, {remaining} left]"


Refused = Callable[[Path, str, Any, Any], UserError]
Damaged = Callable[[files.DamagedPartError], None]


def pending(parts: Sequence[Part], refused: Refused, damaged: Damaged) -> list[Part]:
    """The parts of which a file is missing or damaged; what is there is read, and compared with what it should be.

    `refused` gives the error for a file that was made from something else: its path, the first field that differs, the
    value there and the one expected. `damaged` is told of each file that is not as it was written.
    """
    return [part for part in parts if not _finished(part, refused, damaged)]


def _finished(part: Part, refused: Refused, damaged: Damaged) -> bool:
    whole = [path.exists() and _whole(part, path, refused, damaged) for path in part.paths.values()]
    return all(whole)  # each is looked at


def _whole(part: Part, path: Path, refused: Refused, damaged: Damaged) -> bool:
    """Return whether a file of a part that is there is as it was written and made from what it should be."""
    try:
        there = files.read_identity(path)
        if there.get("format") != part.identity["format"]:
            raise refused(path, "format", there.get("format"), part.identity["format"])
        if there.get("hash") != part.identity["hash"]:
            old, new = there.get("fields", {}), part.identity["fields"]
            name = differing(old, new)
            if name is None:  # a field that is None here and absent there
                raise refused(path, "hash", there.get("hash"), part.identity["hash"])
            raise refused(path, name, old.get(name), new.get(name))
        files.read_part(path)
        return True
    except FileNotFoundError:  # since it was listed
        return False
    except files.DamagedPartError as error:
        damaged(error)
        return False


def record_generated(run: Run, began: float) -> None:
    """Record that all images are there, what is at fault with some, and the time since `began` (`time.monotonic`)."""
    there = run.faults() if run.parts("samples") else {}  # of a shard there may be none
    run.write_meta(faults=image_faults.counts(list(there.values())))
    directory.record_stage(run, "generated", monotonic() - began)


def note_damaged(run: Run, damaged: Sequence[files.DamagedPartError]) -> None:
    """Say which parts are made again since they were damaged, on stderr and in the record."""
    if damaged:
        noted = [
            {"found": str(error).partition(": run --stage")[0], "at": directory.now()} for error in damaged
        ]
        run.write_meta(made_again=[*(run.meta.get("made_again") or []), *noted])
    for entry in noted if damaged else ():
        print(f"{entry['found']}: made again", file=sys.stderr)


def make(
    stage: str,
    parts: Sequence[Part],
    todo: Sequence[Part],
    work: Work,
    team: Team,
    *,
    processes: int = 1,
    progress: bool = True,
) -> None:
    """Make those of a stage's parts that are due (`todo`, see `pending`), each written once its last piece is there."""
    if not todo:
        return
    total, left = (sum(part.images for part in some) for some in (parts, todo))
    places = [(part, place) for part in todo for place in range(len(part.pieces))]
    made: dict[int, dict[int, Piece]] = {}
    several = f" ({processes} workers)" if processes > 1 else ""
    with bar_of(f"{stage}{several}", total, left, progress=progress) as bar:
        pieces = list(chain.from_iterable(part.pieces for part in todo))

        def advance(images: float) -> None:
            bar.update(min(images, total - bar.n))  # beyond its end the bar would have none

        with closing(team.results(work, pieces, processes, advance)) as results:
            for index, piece in results:
                part, place = places[index]
                pieces_made = made.setdefault(id(part), {})
                pieces_made[place] = piece
                if len(pieces_made) == len(part.pieces):
                    write(part, [pieces_made[i] for i in range(len(part.pieces))])
                    del made[id(part)]


def bar_of(stage: str, total: int, left: int, *, progress: bool) -> tqdm:
    """The progress bar of a stage, over so many images of which some are left."""
    return tqdm(
        total=total,
        initial=total - left,
        desc=stage,
        disable=not progress,
        bar_format=_LAYOUT,
        mininterval=0.5,
    )


def useful_workers(processes: int, todo: Sequence[Part]) -> int:
    """Return the number of workers with something to do: at most one per pending piece, at least one."""
    return max(1, min(processes, sum(len(part.pieces) for part in todo)))
