"""Processes of one machine that share the pieces of a stage.

The workers are this process and its helpers. A helper is spawned, so it shares no thread and no lock with this one; it
loads its model once and is given one piece after another. It writes nothing: what it made comes back through a pipe, so
the run directory has one writer whatever becomes of the helpers. Loads no torch until there is work.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from types import ModuleType
from typing import Any, Protocol

from tqdm import tqdm

from probes.errors import UserError

DRAWING = (
    "diffusers.pipelines.stable_diffusion.pipeline_stable_diffusion"  # most of the time that a start takes
)

Tick = Callable[[float], None]
Do = Callable[[Any, Tick], Any]


class Work(Protocol):
    """Work on a piece. A helper is given it pickled, so then it holds settings and names, no models."""

    def opened(self) -> contextlib.AbstractContextManager[Do]:
        """Load what is needed; gives the function of a piece, which gets the callback that counts finished images."""
        ...


class Team:
    """This process and the helpers that it starts: they outlive a stage, since to start one takes seconds.

    A context manager; at its end, however it ends, the helpers end too. They do not import the script that has them,
    which needs no ``if __name__ == "__main__":``; the work that they are given is of a module.
    """

    def __init__(self) -> None:
        self._helpers: list[_Helper] = []
        self._stages = 0

    def __enter__(self) -> Team:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.dismiss(at_once=kind is not None)

    def dismiss(self, *, at_once: bool = False) -> None:
        """Let the helpers end: in order, or whatever they are at."""
        for helper in self._helpers:
            helper.dismiss(at_once=at_once or helper.stage < self._stages or not self._stages)
        for helper in self._helpers:
            helper.end()
        self._helpers = []

    def start(self, workers: int, library: str = DRAWING) -> None:
        """Start the helpers of so many workers, this process one of them, before there is work; they load a library."""
        for helper in self._staffed(workers):
            helper.give(("library", library))

    def _staffed(self, workers: int) -> list[_Helper]:
        """The helpers of so many workers, of whom this process is one."""
        while len(self._helpers) < workers - 1:
            self._helpers.append(_Helper.started())
        return self._helpers[: workers - 1]

    def results(
        self, work: Work, pieces: Sequence[Any], workers: int, tick: Tick
    ) -> Generator[tuple[int, Any], None, None]:
        """Work on pieces; yield what each gave, with its number, as it is done.

        What a piece raises is raised once the pieces before it are done: the same is kept, and the same error raised,
        as with one worker.
        """
        self._stages += 1
        helpers = self._staffed(workers)
        for helper in helpers:
            helper.give(("work", self._stages, work))
        sharing = _Sharing(helpers, self._stages, pieces, tick)
        with work.opened() as do:
            while sharing.goes_on():
                index = sharing.take()
                if index is None:
                    sharing.attend(wait=True)
                else:
                    try:
                        sharing.made.append((index, do(pieces[index], sharing.tick)))
                    except Exception as error:
                        sharing.faults[index] = error
                    sharing.attend()
                while sharing.made:
                    yield sharing.made.popleft()
        if sharing.faults:
            raise sharing.faults[min(sharing.faults)]


class _Sharing:
    """The pieces of a stage, in order, on their way to the helpers and back."""

    def __init__(self, helpers: Sequence[_Helper], stage: int, pieces: Sequence[Any], tick: Tick) -> None:
        self.made: deque[tuple[int, Any]] = deque()
        self.faults: dict[int, Exception] = {}
        self._helpers, self._stage, self._pieces, self._tick = list(helpers), stage, pieces, tick
        self._given = 0

    def take(self) -> int | None:
        """The number of the next piece; None after the last one, or after a fault."""
        if self.faults or self._given == len(self._pieces):
            return None
        self._given += 1
        return self._given - 1

    def goes_on(self) -> bool:
        """Return whether a piece is still to be given, or one to come back; after a fault, one from before it."""
        if not self.faults and self._given < len(self._pieces):
            return True
        before = min(self.faults, default=inf)
        return any(index < before for helper in self._helpers for index in helper.at)

    def tick(self, images: float) -> None:
        """Say how far this process is, and see to the helpers."""
        self._tick(images)
        self.attend()

    def attend(self, *, wait: bool = False) -> None:
        """Hear the helpers and give each its next piece, and one in advance as long as there are enough for all."""
        pipes = {helper.pipe: helper for helper in self._helpers}
        for pipe in connection.wait(list(pipes), None if wait else 0) if pipes else ():
            self._hear(pipes[pipe])
        for helper in self._helpers:
            ahead = len(self._pieces) - self._given > 2 * len(self._helpers)
            while helper.stage == self._stage and len(helper.at) < 1 + ahead:
                index = self.take()
                if index is None:
                    return
                helper.at.append(index)
                helper.give(("piece", index, self._pieces[index]))

    def _hear(self, helper: _Helper) -> None:
        kind, what = helper.heard()
        if kind == "ready":
            helper.stage = what
        elif kind == "tick":
            self._tick(what)
        elif kind == "done":
            self.made.append((helper.at.popleft(), what))
        else:
            self._helpers.remove(helper)
            self.faults[helper.at[0] if helper.at else self._given] = what


@dataclass
class _Helper:
    """One process, this end of its pipe, the stage it is ready for and the numbers of the pieces it was given."""

    process: BaseProcess
    pipe: Connection
    stage: int = 0
    at: deque[int] = field(default_factory=deque)

    @classmethod
    def started(cls) -> _Helper:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs,), daemon=True)
        try:
            with blocked(signal.SIGINT, signal.SIGTERM), without_main():
                process.start()
        except OSError as error:
            ours.close()
            raise UserError(
                f"--workers: expected room for another process, got `{error.strerror}`: use fewer workers"
            ) from None
        finally:
            theirs.close()
        return cls(process, ours)

    def heard(self) -> tuple[str, Any]:
        """Return what it says next: ``ready``, ``tick``, ``done`` or ``failed``, and what belongs to it."""
        try:
            return self.pipe.recv()
        except (EOFError, OSError):
            return "failed", self._ended()

    def give(self, message: tuple) -> None:
        """Tell it something; one that has ended is found out when it is heard."""
        with contextlib.suppress(OSError):
            self.pipe.send(message)

    def dismiss(self, *, at_once: bool) -> None:
        """Let it end: in order, or whatever it is at (it writes nothing, and hears no SIGTERM)."""
        if at_once:
            self.process.kill()
        else:
            self.give(("end",))

    def end(self) -> None:
        """Wait until it has ended."""
        self.process.join(10)
        self.process.kill()
        self.process.join()
        self.pipe.close()

    def _ended(self) -> UserError:
        self.process.join(10)
        code = self.process.exitcode
        how = f"exit status {code}"
        if code is not None and code < 0:
            with contextlib.suppress(ValueError):
                how = signal.Signals(-code).name
        return UserError(
            f"--workers: expected worker process {self.process.pid} to go on, found it ended ({how}; SIGKILL is often"
            " a lack of memory): run the same command again to go on, finished parts are kept, or use fewer workers"
        )


@contextlib.contextmanager
def blocked(*numbers: signal.Signals) -> Iterator[None]:
    """Block signals, so that processes started meanwhile never hear of them; not on Windows, which has no such thing.

    The terminal and batch systems send them to all processes: it is for this one to say what becomes of the others.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # else it may be started meanwhile, and lift the mask
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def without_main() -> Iterator[None]:
    """Let a process that is spawned meanwhile not run the script of this one again, as `multiprocessing` would."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextlib.contextmanager
def loading_libraries() -> Iterator[None]:
    """Look for no cyclic garbage while libraries load; what they bring is passed over in all but full collections.

    They bring a million objects, none of them garbage. Nothing stays frozen: Python would never free it, which the
    libraries report as a leak when the process ends.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        # Python 3.12 begins with some hundred frozen objects; where there are more, another program froze them
        if gc.get_freeze_count() < 10_000:
            gc.freeze()
            gc.unfreeze()  # all objects are in the oldest generation now
        if enabled:
            gc.enable()


# In a helper


def _serve(pipe: Connection) -> None:
    """Work on what comes through the pipe until it says that this is the end."""
    messages: SimpleQueue[tuple] = SimpleQueue()
    threading.Thread(target=_listen, args=(pipe, messages), daemon=True).start()
    if not hasattr(signal, "pthread_sigmask"):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    tqdm.set_lock(threading.RLock())  # its own is shared between processes, and would outlive this one
    try:
        with contextlib.ExitStack() as stack:
            while (message := messages.get())[0] != "end":
                if message[0] == "library":
                    with loading_libraries():
                        importlib.import_module(message[1])
                elif message[0] == "work":
                    stack.close()
                    do = stack.enter_context(message[2].opened())
                    pipe.send(("ready", message[1]))
                elif message[0] == "unread":
                    raise message[1]
                else:
                    pipe.send(("done", do(message[2], lambda images: pipe.send(("tick", images)))))
    except Exception as error:
        pipe.send(("failed", _sendable(error)))
    from probes.execution import signals  # not before: what imports it first is taken for a command line

    signals.leave(0)


def _listen(pipe: Connection, messages: SimpleQueue[tuple]) -> None:
    """Take in at once what is sent, so that the sender never waits; end when the process that sends has ended."""
    while True:
        try:
            messages.put(pipe.recv())
        except (EOFError, OSError):
            os._exit(1)
        except Exception as error:  # of what cannot be unpickled here
            messages.put(("unread", error))


def _sendable(error: Exception) -> Exception:
    """An error that can be pickled; unless the user can mend it, with the traceback it had here."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}").with_traceback(error.__traceback__)
    if not isinstance(error, UserError):
        error.add_note(f"in a worker process:\n{''.join(traceback.format_exception(error))}")
    return error
