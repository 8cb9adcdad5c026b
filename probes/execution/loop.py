"""The one loop over the parts of a stage: each that has no file is made under a lock, and written whole.

Any number of processes may go through the same parts: the same command started again, here or on another machine that
sees the folder. A part is a function of its identity, so two that make one are harmless, and a lock saves the work. A
part that another process is at is waited for. Within a process the pieces of parts (batches) are shared out in order
among helpers (`probes.execution.processes`); how a part is cut never depends on their number, so it alters no byte.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from time import monotonic
from typing import Any

from tqdm import tqdm

from probes.errors import UserError
from probes.execution.part import Part, Piece
from probes.execution.processes import Helpers, Work
from probes.locks import locked, require_there
from probes.runs import directory
from probes.runs import parts as files
from probes.runs.images import fault_counts
from probes.runs.record import differing
from probes.runs.run import Run

PAUSE = 0.5  # seconds until a part that another process is at is looked at again
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
    except files.DamagedPartError as error:
        damaged(error)
        return False


def record_generated(run: Run, began: float) -> None:
    """Record that all images are there, what is at fault with some, and the time since `began` (`time.monotonic`)."""
    faults = fault_counts(list(run.faults().values()))
    directory.record_stage(run, "generated", monotonic() - began, faults=faults)


def note_damaged(run: Run, damaged: Sequence[files.DamagedPartError]) -> None:
    """Say which parts are made again since they were damaged, on stderr and in the record."""
    lines = [str(error).partition(": run --stage")[0] for error in damaged]
    if lines:
        noted = [{"found": line.removeprefix(f"{run.path}/"), "at": directory.now()} for line in lines]
        run.write_meta(made_again=[*(run.meta.get("made_again") or []), *noted])
    for line in lines:
        print(f"{line}: made again", file=sys.stderr)


def make(
    stage: str,
    parts: Sequence[Part],
    todo: Sequence[Part],
    work: Work,
    helpers: Helpers,
    *,
    workers: int = 1,
    progress: bool = True,
) -> None:
    """Make those of a stage's parts that are due (`todo`, see `pending`), in so many processes of this machine."""
    total, left = (sum(part.images for part in some) for some in (parts, todo))
    several = f" ({workers} workers)" if workers > 1 else ""
    with bar_of(f"{stage}{several}", total, left, progress=progress) as bar:

        def advance(images: float) -> None:
            bar.update(min(images, total - bar.n))  # beyond its end the bar would have none

        while todo:
            with PartLocks() as locks:
                count = sum(len(part.pieces) for part in todo)
                made: dict[int, dict[int, Piece]] = {}
                with closing(helpers.results(work, _pieces(todo, locks), workers, advance, count)) as results:
                    for (part, place), piece in results:
                        pieces = made.setdefault(id(part), {})
                        pieces[place] = piece
                        if len(pieces) == len(part.pieces):
                            del made[id(part)]
                            for kind, data in part.files([pieces[place] for place in sorted(pieces)]):
                                files.write_bytes(part.paths[kind], data)
                            locks.release(part)
                todo = locks.again() if locks.elsewhere else []
        advance(total - bar.n)  # what others made


def _pieces(todo: Sequence[Part], locks: PartLocks) -> Iterator[tuple[tuple[Part, int], Any]]:
    """The pieces of parts, each with its part and place; a part is locked when its first piece is asked for."""
    for part in todo:
        if locks.take(part):
            for place, piece in enumerate(part.pieces):
                yield (part, place), piece


class PartLocks(ExitStack):
    """The locks of the parts that this process is at; `elsewhere` are the parts that others were at."""

    def __init__(self) -> None:
        super().__init__()
        self.elsewhere: list[Part] = []
        self._held: dict[Path, ExitStack] = {}

    def take(self, part: Part) -> bool:
        """Lock a part; False where another process is at it, or it is finished by now."""
        require_there(part.lock)
        lock = self._held[part.lock] = self.enter_context(ExitStack())
        if not lock.enter_context(locked(part.lock, wait=False, remove=True)):
            self.elsewhere.append(part)
            return False
        if part.is_finished():
            self.release(part)
            return False
        return True

    def again(self) -> list[Part]:
        """The parts that others were at, after a pause."""
        time.sleep(PAUSE)
        parts, self.elsewhere = self.elsewhere, []
        return parts

    def release(self, part: Part) -> None:
        """Let a part go that is written."""
        self._held.pop(part.lock).close()


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


def useful_workers(workers: int, todo: Sequence[Part]) -> int:
    """Return the number of workers with something to do: at most one per pending piece, at least one."""
    return max(1, min(workers, sum(len(part.pieces) for part in todo)))
