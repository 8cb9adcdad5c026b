"""Helpers: processes of one machine that share the items of a stage with this one (`concurrent.futures`).

On Linux a helper is a fork of this process, which has the libraries and the model of a work loaded, and ends before
the next work. Where a fork might not work (a GPU in use, other threads, as in a notebook, another system) it is
spawned, loads them itself, and goes on to the next work. It is given one item after another, and ends when this
process does, whatever becomes of that. Loads no torch.
"""

from __future__ import annotations

import contextlib
import gc
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
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.queues import SimpleQueue
from types import ModuleType
from typing import Any, Protocol

from tqdm import TMonitor, tqdm

from probes.errors import UserError
from probes.fields.types import WORKER

FORKS = sys.platform == "linux"

Tick = Callable[[float], None]  # is told the number of images that were finished
ItemFunction = Callable[[Any, Tick], Any]  # from an item to its result


class Work(Protocol):
    """A kind of work on items, such as generating batches; it is pickled for helpers, so it must hold no models."""

    def opened(self) -> contextlib.AbstractContextManager[ItemFunction]:
        """Load what the work needs, such as a model, and yield the function that makes the result of an item."""
        ...


class Helpers(contextlib.ExitStack):
    """Helper processes of this one, kept after a call of `results`: forks for the same work, spawned ones for any.

    A context manager; at its end, however it ends, they end too. They do not import the script that has them, which
    needs no ``if __name__ == "__main__":``; the work that they are given is of a module.
    """

    _executor: ProcessPoolExecutor
    _count = 0
    _key = b""  # of the work that forks have open; of spawned ones none

    def results(
        self,
        work: Work,
        items: Iterable[tuple[Any, Any]],
        workers: int = 1,
        tick: Tick = lambda images: None,
    ) -> Iterator[tuple[Any, Any]]:
        """Yield (name, result) of each (name, item) when it is made, by this process and ``workers - 1`` helpers.

        An item's error is raised once the items before it are done, so results and error are those of one worker.
        """
        key, lock, left = key_of(work) if workers > 1 else b"", threading.Lock(), enumerate(items)
        made, faults = deque[tuple[Any, Any, float]](), dict[float, Exception]()
        opened = list[threading.Thread]()

        def next_item() -> tuple[int, tuple[Any, Any]] | None:
            """Return the next (index, (name, item)); None if there is none, or after an error."""
            with lock:
                return None if faults else next(left, None)

        def feed_helper(executor: ProcessPoolExecutor) -> None:
            """Send a helper one item after another, and collect its results; runs in a thread."""
            index = inf
            try:
                executor.submit(_work_on_item, key, work).result()
                opened.append(threading.current_thread())
                while following := next_item():
                    index, (name, item) = following
                    made.append((name, *executor.submit(_work_on_item, key, work, item).result()))
            except BaseException as error:
                faults.setdefault(index, _helper_error(error))

        def start_threads(executor: ProcessPoolExecutor) -> None:
            """Start a thread that feeds a helper, for each helper."""
            for _ in range(workers - 1):
                threading.Thread(target=feed_helper, args=(executor,), daemon=True).start()

        ready = self._count >= workers - 1 and self._key in (b"", key)
        if ready and workers > 1:
            start_threads(self._executor)  # they open the work meanwhile
        try:
            with work.opened() as do:
                if workers > 1 and not ready:
                    self.close()
                    self._count = 0
                    opened_here = (key, contextlib.ExitStack(), do) if _can_fork() else None
                    self._executor = _start_helpers(self, workers - 1, opened_here)
                    self._count, self._key = workers - 1, key if opened_here else b""
                    start_threads(self._executor)
                following = next_item()
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
                    following = following and next_item()
            if faults:
                raise faults[min(faults)]
        finally:
            left = iter(())  # nobody is given more


def _can_fork() -> bool:
    """Return whether a fork of this process could compute: on Linux, without a GPU in use, threads, or their locks."""
    torch, current = sys.modules.get("torch"), threading.current_thread()
    alone = all(thread is current or isinstance(thread, TMonitor) for thread in threading.enumerate())
    return (
        FORKS
        and alone
        and (torch is None or (torch.get_num_threads() == 1 and not torch.cuda.is_initialized()))
    )


def _start_helpers(
    stack: contextlib.ExitStack,
    count: int,
    opened: tuple[bytes, contextlib.ExitStack, ItemFunction] | None = None,
) -> ProcessPoolExecutor:
    """Return `count` processes that end with `stack`: forks of this one that have a work `opened`, or spawned ones."""
    context = multiprocessing.get_context("fork" if opened else "spawn")
    if not opened and hasattr(signal, "pthread_sigmask"):
        resource_tracker.ensure_running()  # else it is started below, and lifts the mask
    (reader, leash), numbers = context.Pipe(duplex=False), context.SimpleQueue()
    for number in range(1, count + 1):
        numbers.put(number)
    inherited = (leash, opened) if opened else ()
    executor = ProcessPoolExecutor(
        count, context, initializer=_start_helper, initargs=(reader, numbers, *inherited)
    )
    stack.callback(executor.shutdown, cancel_futures=True)
    stack.callback(leash.close)  # before: whatever they are at
    try:
        with blocked_signals(signal.SIGINT, signal.SIGTERM), _without_main():
            for _ in range(count):
                executor.submit(os.getpid)
    except OSError as error:
        raise UserError(
            f"--workers: expected room for another process, got `{error.strerror}`: use fewer workers"
        ) from None
    except BrokenProcessPool as error:
        raise _helper_error(error) from None
    return executor


def _helper_error(error: BaseException) -> Exception:
    """Return the exception to raise here for a helper's error; a `UserError` if the helper was killed."""
    if isinstance(error, BrokenProcessPool):
        return UserError(
            "--workers: expected worker processes to go on, found one ended (which is often a lack of memory): run the"
            " same command again to go on, finished parts are kept, or use fewer workers"
        )
    return error if isinstance(error, Exception) else RuntimeError(str(error))


@contextlib.contextmanager
def blocked_signals(*numbers: signal.Signals) -> Iterator[None]:
    """Block signals inside a ``with`` block, so that processes started in it never get them; not on Windows.

    Terminal and batch system send them to all processes, and this one decides when the others end.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Keep processes spawned inside a ``with`` block from importing this process's main script."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextlib.contextmanager
def loading_libraries() -> Iterator[None]:
    """Pause garbage collection inside a ``with`` block that loads libraries, whose objects then count as old."""
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


def _start_helper(
    leash: Connection,
    numbers: SimpleQueue[int],
    other_end: Connection | None = None,
    opened: tuple[bytes, contextlib.ExitStack, ItemFunction] | None = None,
) -> None:
    """Set up a helper: take a worker's number, ignore SIGINT, end when the other end of the pipe `leash` is closed.

    A fork closes its copy of that `other_end`, and has a work opened.
    """
    global _kept
    if other_end is not None:
        other_end.close()
        gc.freeze()  # else a collection would copy all that is shared with the other process
    _kept = opened
    os.environ[WORKER] = str(numbers.get())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tqdm.set_lock(threading.RLock())  # its own is shared between processes, and would outlive this one
    threading.Thread(target=_exit_when_closed, args=(leash,), daemon=True).start()


def _exit_when_closed(leash: Connection) -> None:
    """Wait until the other end of a pipe is closed, then end this process with status 1."""
    with contextlib.suppress(EOFError, OSError):
        leash.recv()
    os._exit(1)


key_of = pickle.dumps  # by what it is pickled as a process that has a work open knows it again
_kept: tuple[bytes, contextlib.ExitStack, ItemFunction] | None = None


def open_once(key: bytes, work: Work) -> ItemFunction:
    """Return a work's function, opened in this process until another work is; `key`: the pickled work."""
    global _kept
    if _kept is None or _kept[0] != key:
        if _kept is not None:
            stack, _kept = _kept[1], None
            stack.close()
        stack = contextlib.ExitStack()
        _kept = key, stack, stack.enter_context(work.opened())
    return _kept[2]


def _work_on_item(key: bytes, work: Work, *items: Any) -> Any:
    """Return an item's result and the number of images it counted, in a helper; without an item open the work."""
    images = list[float]()
    try:
        do = open_once(key, work)
        return (do(items[0], images.append), sum(images)) if items else None
    except UserError as error:
        raise UserError(str(error)) from None  # its own kind may not bear pickling
