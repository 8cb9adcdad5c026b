"""Helpers: processes of one machine that share the items of a stage with this one (`concurrent.futures`).

A helper is spawned, so it shares no thread and no lock with this one. It keeps one work open, a model that is loaded,
and is given one item after another. It ends when this process does, whatever becomes of that. Loads no torch.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import importlib
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from ctypes import c_double
from math import inf
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import RawValue
from types import ModuleType
from typing import Any, Protocol

from tqdm import tqdm

from probes.errors import UserError

DRAWING = (
    "diffusers.pipelines.stable_diffusion.pipeline_stable_diffusion"  # most of the time that a start takes
)
START = "spawn"

Tick = Callable[[float], None]
Do = Callable[[Any, Tick], Any]


class Work(Protocol):
    """Work on items. A helper is given it pickled, so then it holds settings and names, no models."""

    def opened(self) -> contextlib.AbstractContextManager[Do]:
        """Load what is needed; gives the function of an item, which gets the callback that counts finished images."""
        ...


class Helpers:
    """The helpers of this process, which outlive a stage, since to start one takes seconds.

    A context manager; at its end, however it ends, they end too. They do not import the script that has them, which
    needs no ``if __name__ == "__main__":``; the work that they are given is of a module.
    """

    def __init__(self) -> None:
        self._executor: ProcessPoolExecutor | None = None
        self._leash: Connection | None = None
        self._count = 0
        self._ticks: Any = None

    def __enter__(self) -> Helpers:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def end(self) -> None:
        """End the helpers, whatever they are at."""
        if self._executor is not None:
            self._leash.close()
            self._executor.shutdown(cancel_futures=True)
        self._executor, self._leash, self._count = None, None, 0

    def start(self, workers: int, library: str = DRAWING) -> None:
        """Start the helpers of so many workers, this process one of them, before there is work; they load a library."""
        if self._count < workers - 1:
            self.end()
            context = multiprocessing.get_context(START)
            reader, self._leash = context.Pipe(duplex=False)
            self._ticks, self._count = RawValue(c_double, 0.0), workers - 1
            self._executor = ProcessPoolExecutor(
                self._count, context, initializer=_begin, initargs=(reader, self._ticks)
            )
        for _ in range(workers - 1):
            self._submit(_load, library)

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Have a helper call a function of a module; starts one that is still to be started."""
        assert self._executor is not None
        try:
            with blocked(signal.SIGINT, signal.SIGTERM), _without_main():
                return self._executor.submit(function, *arguments)
        except BrokenProcessPool as error:
            raise _as_raised(error) from None
        except OSError as error:
            raise UserError(
                f"--workers: expected room for another process, got `{error.strerror}`: use fewer workers"
            ) from None

    def results(
        self,
        work: Work,
        items: Iterable[tuple[Any, Any]],
        workers: int = 1,
        tick: Tick = lambda images: None,
        count: int = 0,
    ) -> Iterator[tuple[Any, Any]]:
        """Work on items, each with a name; yield the names with what the items gave, as they are done.

        `count`: so many items, about; each is asked for when somebody is free. What an item raises is raised once the
        items before it are done: the same is kept, and the same error raised, as with one worker.
        """
        helpers, left, ticked = workers - 1, enumerate(items), self._ticked()
        if helpers > self._count:
            self.start(workers, "probes")
        key = key_of(work) if helpers > 0 else ""
        opening = [self._submit(_do, key, work) for _ in range(helpers)]
        given, faults = dict[Future[Any], tuple[int, Any]](), dict[int, Exception]()
        results, taken = deque[tuple[Any, Any]](), 0

        def take() -> tuple[int, tuple[Any, Any]] | None:
            nonlocal taken
            taken += 1
            return None if faults else next(left, None)

        def attend(timeout: float = 0.0) -> None:
            """Hear the helpers; give each that is ready an item, and one in advance while there are enough for all."""
            nonlocal ticked
            for future in wait([*given, *opening], timeout, FIRST_COMPLETED).done:
                index, name = given.pop(future, (taken, None))
                if future in opening:
                    opening.remove(future)
                if (error := future.exception()) is not None:
                    faults.setdefault(index, _as_raised(error))
                elif name is not None:
                    results.append((name, future.result()))
            ready = helpers - len(opening)
            while len(given) < ready * (1 + (count - taken > 2 * helpers)) and (following := take()):
                index, (name, item) = following
                given[self._submit(_do, key, work, item)] = index, name
            if (now := self._ticked()) > ticked:
                tick(now - ticked)
                ticked = now

        def own_tick(images: float) -> None:
            tick(images)
            attend()

        attend()
        with work.opened() as do:
            while True:
                if (following := take()) is not None:
                    index, (name, item) = following
                    try:
                        results.append((name, do(item, own_tick)))
                    except Exception as error:
                        faults[index] = error
                elif not any(index < min(faults, default=inf) for index, _ in given.values()):
                    break
                attend(0.0 if following else 0.5)
                while results:
                    yield results.popleft()
        while results:
            yield results.popleft()
        if faults:
            raise faults[min(faults)]

    def _ticked(self) -> float:
        return self._ticks.value if self._ticks is not None else 0.0


def _as_raised(error: BaseException) -> Exception:
    """The error of a helper as it is raised here: one that was killed is said to be."""
    if isinstance(error, BrokenProcessPool):
        return UserError(
            "--workers: expected worker processes to go on, found one ended (which is often a lack of memory): run the"
            " same command again to go on, finished parts are kept, or use fewer workers"
        )
    return error if isinstance(error, Exception) else RuntimeError(str(error))


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
def _without_main() -> Iterator[None]:
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

    They bring a million objects, none of them garbage.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.unfreeze()  # all objects are in the oldest generation now
        if enabled:
            gc.enable()


# In a helper, and in a worker of Ray


def _begin(leash: Connection, ticks: Any) -> None:
    """Begin a helper: it counts finished images in `ticks`, and ends when the other end of `leash` is closed."""
    global _ticks
    _ticks = ticks
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tqdm.set_lock(threading.RLock())  # its own is shared between processes, and would outlive this one
    threading.Thread(target=_end_with, args=(leash,), daemon=True).start()


def _end_with(leash: Connection) -> None:
    """End this process when the one that started it lets go of the leash, or has ended."""
    with contextlib.suppress(EOFError, OSError):
        leash.recv()
    os._exit(1)


def _load(library: str) -> None:
    with loading_libraries():
        importlib.import_module(library)


def _tick(images: float) -> None:
    _ticks.value += (
        images  # of two helpers at one moment one may be lost: it is shown, and nothing hangs on it
    )


_ticks: Any = None
_kept: tuple[str, contextlib.ExitStack, Do] | None = None


def key_of(work: Work) -> str:
    """A name for a work, by which a process that has it open knows it again."""
    return hashlib.sha256(pickle.dumps(work)).hexdigest()


def open_once(key: str, work: Work) -> Do:
    """The function of a work's items in this process, which keeps one work open."""
    global _kept
    if _kept is None or _kept[0] != key:
        if _kept is not None:
            stack, _kept = _kept[1], None
            stack.close()
        stack = contextlib.ExitStack()
        _kept = key, stack, stack.enter_context(work.opened())
    return _kept[2]


def _do(key: str, work: Work, *items: Any) -> Any:
    """Open a work, and do an item of it, if one is given."""
    try:
        do = open_once(key, work)
        return do(items[0], _tick) if items else None
    except UserError as error:
        raise UserError(str(error)) from None  # its own kind may not bear pickling
