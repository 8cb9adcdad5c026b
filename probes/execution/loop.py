"""The one loop over the parts of a stage: which are due, each made in pieces and written whole, with progress.

A part is what is stored, resumed and refused; a piece of it (a batch) is what a process works on. Pieces are shared
out in order among the workers (:mod:`probes.execution.team`), and this process alone writes each part when its last piece is
there. How a part is cut into pieces is the stage's to fix, and never depends on the workers: so their number alters
no byte.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from tqdm import tqdm

from probes.config.schema import Config
from probes.errors import UserError
from probes.execution.team import Do, Team, Work
from probes.runs import directory, image_faults
from probes.runs import parts as files
from probes.runs.identity import differing
from probes.runs.store import Run
from probes.storage import locations

if TYPE_CHECKING:
    from probes.execution.cluster.driver import Cluster

_LAYOUT = "{desc}: {percentage:3.0f}%|{bar}| {n:.0f}/{total:.0f} images [{elapsed}, {remaining} left]"


@dataclass(frozen=True)
class Command:
    """What a stage that stores images is called with, beside what it stores.

    Attributes
    ----------
    passed, text
        The configuration as it was passed, for ``run.json`` and the copy of ``triplets.yaml``.
    overwrite : bool
        Remove what the directory holds, once the work can begin.
    progress : bool
        Show a progress bar with the time left.
    captions : mapping, optional
        What the record keeps of the captions that prompts come from, see `probes.prompts.of_captions`.
    team : Team, optional
        Processes that are there already and may help; else those that are needed are started and ended by the stage.
    cluster : Cluster, optional
        Workers on other machines that make the parts in the place of the processes of this one.
    """

    passed: Mapping[str, Any] | None = None
    text: str | None = None
    overwrite: bool = False
    progress: bool = True
    captions: Mapping[str, Any] | None = None
    team: Team | None = None
    cluster: Cluster | None = None

    @contextmanager
    def helpers(self) -> Iterator[Team]:
        """Hold this process and its helpers."""
        with nullcontext(self.team) if self.team else Team() as team:
            yield team

    def cleared(self, run: Run) -> None:
        """Remove what a run directory holds, where it is to be overwritten."""
        if self.overwrite:
            directory.clear(run)

    def record(
        self, run: Run, config: Config, damaged: Sequence[files.DamagedPartError], **fields: Any
    ) -> None:
        """Write ``run.json`` before the first part is made, and say which parts are made again."""
        directory.record(
            run, config, self.passed or {}, self.text, "planned", captions=self.captions, **fields
        )
        note_damaged(run, damaged)


@dataclass(frozen=True)
class RowsOfKind:
    """What a piece gave for the files of one kind: rows and their columns."""

    rows: list[dict[str, Any]]
    schema: pa.Schema


Piece = Mapping[str, RowsOfKind]  # by kind


@dataclass(frozen=True)
class Part:
    """A part of a stage.

    Attributes
    ----------
    paths : mapping of str to Path
        Its files by kind, in the order they are written; it is finished when all are there.
    identity : mapping
        What was it made from (:func:`probes.runs.parts.identity`).
    images : int
        Images in it.
    pieces : sequence
        What the work of the stage is given one by one; each gives a `Piece`.
    """

    paths: Mapping[str, Path]
    identity: Mapping[str, Any]
    images: int
    pieces: Sequence[Any]


Refused = Callable[[Path, str, Any, Any], UserError]
Damaged = Callable[[files.DamagedPartError], None]


def due(parts: Sequence[Part], refused: Refused, damaged: Damaged) -> list[Part]:
    """The parts of which a file is missing or damaged; what is there is read, and held against what it should be.

    Parameters
    ----------
    parts
        All parts of a stage.
    refused
        Gives the error for a file that was made from something else: its path, the first field that differs, what
        that is there and what was expected.
    damaged
        Told of each file that is not as it was written: a part is a function of its identity, so it is made again.

    Raises
    ------
    UserError
        A file was made from something else.
    """
    there = locations.present(path for part in parts for path in part.paths.values())
    return [part for part in parts if not _finished(part, there, refused, damaged)]


def _finished(part: Part, there: Collection[Path], refused: Refused, damaged: Damaged) -> bool:
    whole = [path in there and _whole(part, path, refused, damaged) for path in part.paths.values()]
    return all(whole)  # each is looked at


def _whole(part: Part, path: Path, refused: Refused, damaged: Damaged) -> bool:
    """Whether a file of a part that is there is as it was written and made from what it should be."""
    try:
        with locations.once(path, whole=True):
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


def drawn(run: Run, began: float) -> None:
    """Record that all images are there, what is at fault with some, and the time since `began` (`time.monotonic`)."""
    there = run.faults() if run.parts("samples") else {}  # of a shard there may be none
    run.write_meta(faults=image_faults.counts(list(there.values())))
    directory.reached(run, "generated", monotonic() - began)


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
    """Make the parts that are due.

    Parameters
    ----------
    stage
        Its name, for the progress bar.
    parts
        All of the stage.
    todo
        Those of them that are due, see `due`.
    work
        What is done with a piece.
    team
        This process and its helpers.
    processes
        How many of them work.
    progress
        Show a progress bar with the time left.

    Raises
    ------
    UserError
        The disk is full, a worker has ended, or what the work raises.
    """
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
                    _write(part, [pieces_made[i] for i in range(len(part.pieces))])
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


def make_whole(part: Part, do: Do, require: Callable[[], None] = lambda: None) -> None:
    """Make all pieces of a part in this process, and write its files once `require` lets it."""
    pieces = [do(piece, lambda images: None) for piece in part.pieces]
    require()
    _write(part, pieces)


def useful(processes: int, todo: Sequence[Part]) -> int:
    """So many workers, or as many as there are pieces due: more would stand idle. At least one."""
    return max(1, min(processes, sum(len(part.pieces) for part in todo)))


def _write(part: Part, pieces: Sequence[Piece]) -> None:
    for kind, path in part.paths.items():
        rows = [row for piece in pieces for row in piece[kind].rows]
        files.write_part(path, rows, pieces[-1][kind].schema, part.identity)
