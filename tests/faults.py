"""Processes that end in the middle, or hold what another wants."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from unittest import mock

CALLS = ("write", "fsync", "replace", "unlink", "rmdir")


class Death(BaseException):
    """Stands for the end of the process: nothing catches it."""


class Counter:
    """Calls that change the disk; from the `at`-th on each of them fails, so that nothing is tidied up either."""

    def __init__(self, at: int | None = None):
        self.at = at
        self.seen = 0

    def replacement(self, name: str):
        real = getattr(os, name)

        def call(*args, **options):
            self.seen += 1
            if self.at is None or self.seen < self.at:
                return real(*args, **options)
            if name == "write" and self.seen == self.at:  # half of it arrives
                real(args[0], bytes(args[1])[: len(args[1]) // 2])
            raise Death

        return call


@contextlib.contextmanager
def dying(at: int | None = None) -> Iterator[Counter]:
    """Count the calls that change the disk and, where `at` is given, end at that one."""
    counter = Counter(at)
    with contextlib.ExitStack() as stack:
        for name in CALLS:
            stack.enter_context(mock.patch.object(os, name, counter.replacement(name)))
        yield counter


@contextlib.contextmanager
def holding(context: AbstractContextManager) -> Iterator[int]:
    """Have another process enter a context, such as a lock, until the block ends or it is killed; gives its number."""
    ready, told = os.pipe()
    child = os.fork()
    if not child:  # pragma: no cover
        try:
            with context:
                os.write(told, b"!")
                time.sleep(600)
        finally:
            os._exit(1)
    os.close(told)
    try:
        assert os.read(ready, 1) == b"!"
        yield child
    finally:
        os.close(ready)
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(child, 9)
            os.waitpid(child, 0)
