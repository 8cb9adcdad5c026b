"""A block of code during which hooks are on a pipeline, and after which none is left."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Self

from hooks.architectures.base import Architecture
from hooks.architectures.site import has_module, module_at
from hooks.architectures.text_encoders import TEXT_ENCODERS
from hooks.errors import HookError

_THREADS: dict[int, list[int]] = {}  # by denoiser, the thread of each block that is open on it


class HookedBlock:
    """A context manager that is entered once: what attaches hooks when it begins says what it saw when it has ended.

    A class of it has `_prepare` (before anything is attached), `_attach`, `_finish` (after a block without an
    exception) and `_forget` (after any), and reads ``_phase``: "new", "inside", "done" or "failed".
    `_prepare` sets ``_architecture``, and ``_paths``, those of the modules that are hooked.
    """

    _phase = "new"
    _pipe: Any
    _architecture: Architecture
    _paths: set[str]
    _thread: int

    def __enter__(self) -> Self:
        name = type(self).__name__
        if self._phase != "new":
            raise HookError(f"{name}: entered a second time; one {name} is for one block: make a new one")
        self._prepare()
        with contextlib.ExitStack() as stack:  # rolls back what was attached if anything fails
            self._take_thread(stack)
            self._paths |= {self._architecture.denoiser_part, "scheduler"}
            here = [path for path in self._paths if has_module(self._pipe, path)]
            self._parts = {path: module_at(self._pipe, path) for path in here}
            self._attach(stack)
            self._hooks = stack.pop_all()
        self._phase = "inside"
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._hooks.close()
        self._phase = "failed"
        try:
            if kind is None:
                self._require_unchanged()
                self._finish()
                self._phase = "done"
        finally:
            self._parts = {}
            self._forget()

    def _require_unchanged(self) -> None:
        """Refuse another module in the place of one that is hooked: hooks stay on the one that was there."""
        self._architecture.require_readable(self._pipe)
        for path, part in self._parts.items():
            if not has_module(self._pipe, path) or module_at(self._pipe, path) is not part:
                raise HookError(
                    f"{type(self).__name__}: expected {type(self._pipe).__name__}.{path} to stay what it was when the "
                    "block began, but another was put in its place (by a LoRA, a processor, fused projections, another "
                    "scheduler?): do that before the block"
                )

    def _take_thread(self, stack: contextlib.ExitStack) -> None:
        """Note that this thread runs the pipeline while the block is open, and refuse any other."""
        denoiser = self._architecture.denoiser(self._pipe)
        self._thread = threading.get_ident()
        blocks = _THREADS.setdefault(id(denoiser), [])
        blocks.append(self._thread)
        stack.callback(blocks.remove, self._thread)
        encoders = [getattr(self._pipe, part, None) for part in TEXT_ENCODERS.values()]
        for module in (denoiser, *encoders):
            if module is not None:
                stack.callback(
                    module.register_forward_pre_hook(self._require_own_thread, prepend=True).remove
                )
        if set(blocks) != {self._thread}:
            self._refuse_thread()

    def _require_own_thread(self, module: Any, args: Any) -> None:
        if threading.get_ident() != self._thread:
            self._refuse_thread()

    def _refuse_thread(self) -> None:
        raise HookError(
            f"{type(self).__name__}: expected a pipeline that one thread runs, but another thread runs it: enter the "
            "block in the thread that calls it, under one lock for all threads, or load a pipeline for each"
        )

    def _prepare(self) -> None:
        raise NotImplementedError

    def _attach(self, stack: contextlib.ExitStack) -> None:
        raise NotImplementedError

    def _finish(self) -> None:
        raise NotImplementedError

    def _forget(self) -> None:
        raise NotImplementedError
