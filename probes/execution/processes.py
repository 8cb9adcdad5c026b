"""Helpers: processes of one machine that share the items of a stage with this one (`concurrent.futures`).

A helper is spawned, so it shares no thread and no lock with this one. It keeps one work open, a model that is loaded,
and is given one item after another. It ends when this process does, whatever becomes of that. Loads no torch.
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
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from math import inf
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any, Protocol

from tqdm import tqdm

from probes.errors import UserError
from probes.fields.types import WORKER

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


class Helpers(contextlib.ExitStack):
    """The helpers of this process, which outlive a stage, since to start one takes seconds.

    A context manager; at its end, however it ends, they end too. They do not import the script that has them, which
    needs no ``if __name__ == "__main__":``; the work that they are given is of a module.
    """

    _executor: ProcessPoolExecutor
    _count = 0

    def start(self, workers: int, library: str = DRAWING) -> None:
        """Start the helpers of so many workers, this process one of them, before there is work; they load a library."""
        if self._count < workers - 1:
            self.close()
            self._count, context = workers - 1, multiprocessing.get_context(START)
            (reader, leash), numbers = context.Pipe(duplex=False), context.SimpleQueue()
            for number in range(1, workers):
                numbers.put(number)
            self._executor = ProcessPoolExecutor(
                self._count, context, initializer=_begin, initargs=(reader, numbers)
            )
            self.callback(self._executor.shutdown, cancel_futures=True)
            self.callback(leash.close)  # before: whatever they are at
        try:
            with blocked(signal.SIGINT, signal.SIGTERM), _without_main():
                for _ in range(workers - 1):
                    self._executor.submit(_load, library)
        except OSError as error:
            raise UserError(
                f"--workers: expected room for another process, got `{error.strerror}`: use fewer workers"
            ) from None
        except BrokenProcessPool as error:
            raise _as_raised(error) from None

    def results(
        self,
        work: Work,
        items: Iterable[tuple[Any, Any]],
        workers: int = 1,
        tick: Tick = lambda images: None,
    ) -> Iterator[tuple[Any, Any]]:
        """Work on items, each with a name; yield the names with what the items gave, as they are done.

        Each is asked for when this process or a helper is free. What an item raises is raised once the items before it
        are done: the same is kept, and the same error raised, as with one worker.
        """
        if workers - 1 > self._count:
            self.start(workers, "probes")
        key, lock, left = key_of(work) if workers > 1 else b"", threading.Lock(), enumerate(items)
        made, faults = deque[tuple[Any, Any, float]](), dict[float, Exception]()
        opened = list[threading.Thread]()

        def take() -> tuple[int, tuple[Any, Any]] | None:
            with lock:
                return None if faults else next(left, None)

        def serve() -> None:
            """Have a helper work on one item after another; in a thread of its own."""
            index = inf
            try:
                self._executor.submit(_do, key, work).result()
                opened.append(threading.current_thread())
                while following := take():
                    index, (name, item) = following
                    made.append((name, *self._executor.submit(_do, key, work, item).result()))
            except BaseException as error:
                faults.setdefault(index, _as_raised(error))

        for _ in range(workers - 1):
            threading.Thread(target=serve, daemon=True).start()
        try:
            with work.opened() as do:
                following = take()
                while following or opened:
                    if following:
                        index, (name, item) = following
                        try:
                            made.append((name, do(item, tick), 0.0))
                        except Exception as error:
                            faults.setdefault(index, error)
                    else:
                        opened.pop().join()  # not those that are loading
                    while made:
                        name, result, images = made.popleft()
                        tick(images)
                        yield name, result
                    following = following and take()
            if faults:
                raise faults[min(faults)]
        finally:
            left = iter(())  # nobody is given more


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


def _begin(leash: Connection, numbers: Any) -> None:
    """Begin a helper with the next number; it ends when the other end of `leash` is closed, or its process ends."""
    os.environ[WORKER] = str(numbers.get())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tqdm.set_lock(threading.RLock())  # its own is shared between processes, and would outlive this one
    threading.Thread(target=_end_with, args=(leash,), daemon=True).start()


def _end_with(leash: Connection) -> None:
    with contextlib.suppress(EOFError, OSError):
        leash.recv()
    os._exit(1)


def _load(library: str) -> None:
    with loading_libraries():
        importlib.import_module(library)


key_of = pickle.dumps  # by what it is pickled as a process that has a work open knows it again
_kept: tuple[bytes, contextlib.ExitStack, Do] | None = None


def open_once(key: bytes, work: Work) -> Do:
    """The function of a work's items in this process, which keeps one work open."""
    global _kept
    if _kept is None or _kept[0] != key:
        if _kept is not None:
            stack, _kept = _kept[1], None
            stack.close()
        stack = contextlib.ExitStack()
        _kept = key, stack, stack.enter_context(work.opened())
    return _kept[2]


def _do(key: bytes, work: Work, *items: Any) -> Any:
    """Open a work, and do an item of it, if one is given; gives what that gave and the images that it counted."""
    images = list[float]()
    try:
        do = open_once(key, work)
        return (do(items[0], images.append), sum(images)) if items else None
    except UserError as error:
        raise UserError(str(error)) from None  # its own kind may not bear pickling
