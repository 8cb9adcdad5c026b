"""A block of code during which hooks are on a pipeline, and after which none is left.

Pipelines of transformers may call the denoiser several times in one step (a second call for the negative prompt, a
third that skips layers), change the sign of its output, or rescale the guided prediction. All of that has happened
where `scheduler.step` is called: its model output is the guided prediction, its sample x_t.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import torch

from hooks.architectures.base import Architecture
from hooks.architectures.site import Inputs, Step, has_module, module_at
from hooks.architectures.text_encoders import TEXT_ENCODERS
from hooks.errors import HookError
from hooks.prompt.text import TextReader, match_runs

_THREADS: dict[int, list[int]] = {}  # by denoiser, the thread of each block that is open on it


class HookedBlock:
    """Base of `Probe` and `Intervention`: a context manager that keeps hooks on a pipeline during one call of it.

    A class of it has `_prepare` (before anything is attached), `_attach_sites`, `_before_denoiser`, `_after_denoiser`,
    `_on_step`, `_finish` (after a block without an exception) and `_forget` (after any), and reads ``_phase``: "new",
    "inside", "done" or "failed". `_prepare` sets ``_architecture``, ``_readers`` and ``_paths``, those of the modules
    that are hooked.
    """

    _phase = "new"
    _pipe: Any
    _architecture: Architecture
    _readers: list[TextReader]
    _paths: set[str]
    _thread: int
    _first = False  # whether its hook on the denoiser runs before those that are there
    _prepare: Callable[[], None]
    _attach_sites: Callable[[contextlib.ExitStack], None]
    _before_denoiser: Callable[[Inputs, tuple[Any, ...], dict[str, Any]], None]
    _after_denoiser: Callable[[Any, Any, Any], None]
    _on_step: Callable[[Step], None]
    _finish: Callable[[], None]
    _forget: Callable[[], None]

    def __enter__(self) -> Self:
        """Attach all hooks, and return the block; a HookError if it was entered before."""
        name = type(self).__name__
        if self._phase != "new":
            raise HookError(f"{name}: entered a second time; one {name} is for one block: make a new one")
        self._prepare()
        self._calls = self._steps = 0  # of the denoiser and of the scheduler, until now
        self._branches: dict[str, Any] = {}
        self._timesteps: Any = None  # when the denoiser was first called
        self._in_step = False
        denoiser = self._architecture.denoiser(self._pipe)
        with contextlib.ExitStack() as stack:  # rolls back what was attached if anything fails
            self._claim_thread(stack)
            self._paths |= {self._architecture.denoiser_part, "scheduler"}
            here = [path for path in self._paths if has_module(self._pipe, path)]
            self._parts = {path: module_at(self._pipe, path) for path in here}
            # the denoiser's batch is known before, and forgotten after, its modules run
            self._wrap_scheduler(stack)
            before = denoiser.register_forward_pre_hook(
                self._on_denoiser_call, with_kwargs=True, prepend=self._first
            )
            stack.callback(before.remove)
            for reader in self._readers:
                reader.attach(stack)
            self._attach_sites(stack)
            stack.callback(denoiser.register_forward_hook(self._after_denoiser).remove)
            self._hooks = stack.pop_all()
        self._phase = "inside"
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """Remove all hooks and, after a block without an exception, compute the results."""
        self._hooks.close()
        self._phase = "failed"
        try:
            if kind is None:
                self._require_unchanged()
                self._finish()
                self._phase = "done"
        finally:
            self._parts, self._readers = {}, []
            self._forget()

    def _phase_text(self, activity: str) -> str:
        """Text for the `repr` of a block that has no results yet: unused, `activity` (inside it), or failed."""
        states = {
            "new": f"to be used as `with {type(self).__name__.lower()}:`, around one call of the pipeline",
            "inside": activity,
            "failed": "ended with an exception, nothing was recorded",
        }
        return states[self._phase]

    @torch.no_grad()
    def _on_denoiser_call(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Pass a step's first denoiser call to `_before_denoiser`; a HookError if the pipeline was called again."""
        timesteps = getattr(self._scheduler, "timesteps", None)
        self._timesteps = timesteps if self._timesteps is None else self._timesteps
        again = self._timesteps is not timesteps  # they were set anew since
        further = self._in_step and self._architecture.transformer and not again
        self._in_step = True
        if further:
            return  # a further call in this step
        planned = self._architecture.planned_steps(self._pipe)
        again = again or (self._calls > 0 and any(reader.runs for reader in self._readers))
        if again or (planned is not None and self._calls >= planned):
            name = type(self).__name__
            raise HookError(
                f"{name}: expected one call of the pipeline inside the block, but its denoising (or its text "
                f"encoder) began again: make a new {name} for each call"
            )
        if self._calls == 0:
            self._require_unchanged()
            self._branches = self._branches_argument(args, kwargs)
        self._before_denoiser(
            self._architecture.inputs(self._pipe, args, kwargs, **self._branches), args, kwargs
        )
        for reader in self._readers:
            reader.runs.clear()
        self._calls += 1

    def _branches_argument(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Keyword argument `branches` of `Architecture.inputs`, where only the text states show the branches; else {}.

        Before the first call of the denoiser, the first run of each text encoder is that of the prompts.
        """

        def are_prompt_states(states: torch.Tensor) -> bool:
            """Return whether text states are those of the prompts, not of negative prompts."""
            matched, _ = match_runs(self._readers, states)
            return any(reader.runs and matched[reader.name] is reader.runs[0] for reader in self._readers)

        runs = max((len(reader.runs) for reader in self._readers), default=0)
        branches = self._architecture.branches_from_texts(self._pipe, args, kwargs, are_prompt_states, runs)
        return {} if branches is None else {"branches": branches}

    def _wrap_scheduler(self, stack: contextlib.ExitStack) -> None:
        """Let the scheduler's method `step` pass each `Step` to `_on_step` first, until `stack` closes.

        Closing the stacks of several blocks, in any order, restores the scheduler's own method.
        """
        scheduler = self._scheduler = self._pipe.scheduler
        method, before = scheduler.step, vars(scheduler).get("step")
        signature = inspect.signature(type(scheduler).step)  # whatever was put over it

        @functools.wraps(getattr(method, "__func__", method))  # pipelines ask which arguments it takes
        def step(instance: Any, *args: Any, **kwargs: Any) -> Any:
            """Pass the arguments to `_on_step`, then to the scheduler's own method."""
            if instance is not scheduler:  # a copy of it, in a callback
                return type(instance).step(instance, *args, **kwargs)
            arguments = [*signature.bind_partial(instance, *args, **kwargs).arguments.values()]
            if self._in_step and not step.left:
                with torch.no_grad():
                    self._on_step(Step(*arguments[1:4]))
            self._in_step, self._steps = False, self._steps + 1
            return method(*args, **kwargs)

        def restore() -> None:
            """Put the scheduler's own method back, as far as other blocks have ended, too."""
            step.left = True
            while getattr(now := vars(scheduler).get("step"), "left", False):
                if now.before is None:
                    del scheduler.step
                else:
                    scheduler.step = now.before

        step.left, step.before = False, before
        scheduler.step = types.MethodType(step, scheduler)  # which a copy binds to itself
        stack.callback(restore)

    def _require_unchanged(self) -> None:
        """Raise a HookError if a hooked module or the scheduler was replaced, or cannot be read, since entry."""
        self._architecture.require_readable(self._pipe)
        for path, part in self._parts.items():
            if not has_module(self._pipe, path) or module_at(self._pipe, path) is not part:
                raise HookError(
                    f"{type(self).__name__}: expected {type(self._pipe).__name__}.{path} to stay what it was when the "
                    "block began, but another was put in its place (by a LoRA, a processor, fused projections, another "
                    "scheduler?): do that before the block"
                )

    def _claim_thread(self, stack: contextlib.ExitStack) -> None:
        """Reserve the denoiser for this thread until `stack` closes; a HookError if another thread has reserved it."""
        denoiser = self._architecture.denoiser(self._pipe)
        self._thread = threading.get_ident()
        blocks = _THREADS.setdefault(id(denoiser), [])
        blocks.append(self._thread)
        stack.callback(blocks.remove, self._thread)
        encoders = [getattr(self._pipe, part, None) for part in TEXT_ENCODERS.values()]
        for module in (denoiser, *encoders):
            if module is not None:
                stack.callback(
                    module.register_forward_pre_hook(self._require_same_thread, prepend=True).remove
                )
        if set(blocks) != {self._thread}:
            self._refuse_other_thread()

    def _require_same_thread(self, module: Any, args: Any) -> None:
        """Hook before a module's forward: raise a HookError in a thread other than the one that entered the block."""
        if threading.get_ident() != self._thread:
            self._refuse_other_thread()

    def _refuse_other_thread(self) -> None:
        """Raise the HookError for a pipeline that two threads use at once."""
        raise HookError(
            f"{type(self).__name__}: expected a pipeline that one thread runs, but another thread runs it: enter the "
            "block in the thread that calls it, under one lock for all threads, or load a pipeline for each"
        )
