"""Work for the tests of workers that needs no model."""

import contextlib
import multiprocessing
import os
import signal
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa

from probes.errors import UserError
from probes.execution.loop import Part, RowsOfKind
from probes.fields.types import WORKER
from probes.runs import parts


@dataclass(frozen=True)
class Marks:
    """Gives each piece with the process that worked on it; this process waits with its first for a helper's mark."""

    folder: Path
    faults: dict = field(default_factory=dict)  # by piece: what becomes of the process that has it
    payload: int = 0

    @contextlib.contextmanager
    def opened(self):
        if "opening" in self.faults and multiprocessing.parent_process():
            self.fail("opening")
        yield partial(self.do)

    def do(self, piece, tick):
        number, data = piece
        if multiprocessing.parent_process() is None:
            until = time.monotonic() + 120
            while not any(self.folder.iterdir()) and time.monotonic() < until:
                time.sleep(0.01)
                tick(0)
            if "killed" in self.faults.values():  # it has work left when the helper is gone
                while multiprocessing.active_children() and time.monotonic() < until:
                    time.sleep(0.01)
                    tick(0)  # as it would between two steps: else a helper waits for its next piece
        else:
            (self.folder / f"{number}-{os.getpid()}").touch()
        tick(1)
        if number in self.faults:
            self.fail(number)
        return number, os.getpid(), len(data), bytes(self.payload)

    def fail(self, number):
        match self.faults[number]:
            case "mendable":
                raise UserError(f"piece {number}: expected an image, got none: add it")
            case "late":
                time.sleep(0.5)
                raise UserError(f"piece {number}: too late")
            case "bug":
                raise ZeroDivisionError(f"in piece {number}")
            case "killed":
                if multiprocessing.parent_process() is None:
                    time.sleep(1000)
                (self.folder / "killed").touch()
                os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Numbers:
    """Gives the number of the worker that has an item, once so many helpers have one."""

    folder: Path
    helpers: int

    @contextlib.contextmanager
    def opened(self):
        yield self.do

    def do(self, item, tick):
        if number := os.environ.get(WORKER, ""):
            (self.folder / number).touch()
        until = time.monotonic() + 120
        while len(list(self.folder.iterdir())) < self.helpers and time.monotonic() < until:
            time.sleep(0.01)
        return number


@dataclass(frozen=True)
class LightWork:
    """Gives of each piece a row with its number; for tests of parts."""

    faults: tuple = (2,)
    device = "cpu"

    @contextlib.contextmanager
    def opened(self):
        yield self.do

    def do(self, piece, tick):
        if piece in self.faults:
            raise ZeroDivisionError(f"in piece {piece}")
        tick(1)
        return {"samples": RowsOfKind([{"number": piece}], pa.schema([("number", pa.int32())]))}


def light_part(run, number):
    """A part of one row, for `LightWork`."""
    paths = {"samples": run.part_path("samples", number)}
    return Part(paths, parts.identity(number, {"number": number}), 1, [number])
