"""A block of code during which hooks are on a pipeline, and after which none is left."""

from __future__ import annotations

import contextlib
from typing import Any, Self

from hooks.errors import HookError


class HookedBlock:
    """A context manager that is entered once: what attaches hooks when it begins says what it saw when it has ended.

    A class of it has `_prepare` (before anything is attached), `_attach`, `_finish` (after a block without an
    exception) and `_forget` (after any), and reads ``_phase``: "new", "inside", "done" or "failed".
    """

    _phase = "new"

    def __enter__(self) -> Self:
        name = type(self).__name__
        if self._phase != "new":
            raise HookError(f"{name}: entered a second time; one {name} is for one block: make a new one")
        self._prepare()
        with contextlib.ExitStack() as stack:  # rolls back what was attached if anything fails
            self._attach(stack)
            self._hooks = stack.pop_all()
        self._phase = "inside"
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._hooks.close()
        self._phase = "failed"
        try:
            if kind is None:
                self._finish()
                self._phase = "done"
        finally:
            self._forget()

    def _prepare(self) -> None:
        raise NotImplementedError

    def _attach(self, stack: contextlib.ExitStack) -> None:
        raise NotImplementedError

    def _finish(self) -> None:
        raise NotImplementedError

    def _forget(self) -> None:
        raise NotImplementedError
