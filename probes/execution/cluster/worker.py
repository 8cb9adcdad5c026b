"""Worker of a cluster: holds the models of one stage, completes parts of a run and writes them.

It writes the files of a part as a run of one process does, by the same code, each whole or not at all; the record of
the run is the driver's. What it receives and answers is plain data, and what it raises one of three errors
(`plain_errors`), so that everything can be pickled. Knows no Ray; loads no torch until there is work.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probes.errors import UserError
from probes.execution.cluster.job import Job, record_checksum
from probes.execution.part import Part, make_whole
from probes.execution.team import Do
from probes.runs.store import Run
from probes.versions import versions

PATIENCE = 60.0  # seconds until a network file system shows what another machine has written
_PAUSE = 0.5
# libraries that have a say in the bytes of a part
_LIBRARIES = ("triptych", "torch", "diffusers", "transformers", "tokenizers", "numpy", "pillow", "pyarrow")


@dataclass(frozen=True)
class Making:
    """A stage that is open: its parts by number, what is done with a piece, and on what kind of torch device."""

    part: Callable[[int], Part]
    do: Do
    device: str


class BugError(RuntimeError):
    """A bug in a worker; its message is the traceback that it had there."""


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """Raise what the user can mend as `UserError`, no room on the device as `MemoryError`, all else as `BugError`."""
    try:
        yield
    except UserError as error:
        raise UserError(str(error)) from None  # its own kind may not bear pickling
    except Exception as error:
        if "torch" in sys.modules:
            from probes.execution import batches

            if batches.no_room(error):
                raise MemoryError(str(error)) from None
        raise BugError("".join(traceback.format_exception(error))) from None


class Worker:
    """A process of a cluster, called from the driver, one call after another."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._making: Making | None = None
        self._job: Job | None = None

    def describe(self) -> dict[str, Any]:
        """Return where this is, and with which libraries."""
        return {"host": socket.gethostname(), "versions": libraries()}

    @plain_errors()
    def answer(self, function: str, job: Job) -> Any:
        """Answer a stage's question: ``module:function`` is given the job and returns plain data."""
        self._close()
        return _imported(function)(_here(job))

    @plain_errors()
    def open_stage(self, function: str, job: Job) -> str:
        """Open a stage: ``module:function`` is given the job; gives the kind of device it works on."""
        self._close()
        self._job = _here(job)
        self._making = self._stack.enter_context(_imported(function)(self._job))
        return described(self._making.device)

    @plain_errors()
    def make_part(self, number: int, expected: str) -> None:
        """Make a part, given its number and the hash of its identity, and write its files."""
        assert self._making is not None
        part = self._making.part(number)
        if part.identity["hash"] != expected:
            raise UserError(
                f"part {number}: expected the one that the driver planned, got another plan of it on"
                f" {socket.gethostname()}: install the same version of triptych on all machines"
            )
        make_whole(part, self._making.do, self._require_run)

    def _require_run(self) -> None:
        """Refuse to write where the run directory is gone: a worker does not hold it, and would make one of its own."""
        job = self._job
        if job is None or job.record is None or (Path(job.run) / "run.json").exists():
            return
        raise UserError(
            f"{job.run}: expected the run directory to stay while it is worked on, found it gone: put it back and run"
            " again"
        )

    def _close(self) -> None:
        if self._making is None:
            return
        self._making = None
        self._stack.close()
        gc.collect()
        if "torch" in sys.modules and (torch := sys.modules["torch"]).cuda.is_available():
            torch.cuda.empty_cache()


def _here(job: Job) -> Job:
    """The job, with paths leading from the folder in which the command was called, where that is seen from here."""
    with contextlib.suppress(OSError):
        os.chdir(job.folder)
    if job.record is not None:
        _require_seen(job)
    return job


def _imported(function: str) -> Callable[[Job], Any]:
    module, name = function.split(":")
    return getattr(importlib.import_module(module), name)


def _require_seen(job: Job) -> None:
    """Refuse a run directory that is not the driver's: then what is written here would be seen by nobody."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            found = "another" if record_checksum(Run.open(job.run)) != job.record else ""
        except UserError:
            found = "none"
        if not found:
            return
        if time.monotonic() >= until:
            raise UserError(
                f"{job.run}: expected the driver's run directory on {socket.gethostname()}, found {found}: choose an"
                " --out on storage that all machines of the cluster see at the same path"
            )
        time.sleep(_PAUSE)


def libraries() -> dict[str, str]:
    """The versions of the libraries that have a say in the bytes of a part."""
    return {name: version for name, version in versions().items() if name in _LIBRARIES}


def described(device: str) -> str:
    """The name of the GPU that this process works on or, of a CPU, for what its kernels are made."""
    if device != "cpu" and not device.startswith("cuda"):
        return device
    import torch

    if device == "cpu":
        return f"cpu with {torch.backends.cpu.get_cpu_capability()}"
    return torch.cuda.get_device_name(torch.device(device))
