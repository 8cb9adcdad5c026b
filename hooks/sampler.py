"""Steps of a sampler: what lies between two calls of `scheduler.step`, and what the scheduler is given there.

Pipelines of transformers may call the denoiser several times in one step (a second call for the negative prompt, a
third that skips layers), change the sign of its output, or rescale the guided prediction. All of that has happened
where `scheduler.step` is called: its model output is the guided prediction, its sample x_t.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Step:
    """The guided prediction that a scheduler is given, as the pipeline lays it out, its timestep, and x_t."""

    output: Tensor
    timestep: Any
    sample: Tensor


class StepCounter:
    """Tells which calls of a denoiser begin a step, and hands each `Step` to `receive` before the scheduler goes on.

    `several`: one step may make several calls; otherwise each begins one. `again`: timesteps were set anew since the
    first call, so another call of a pipeline has begun. A scheduler that is None tells nothing.
    """

    def __init__(
        self, scheduler: Any, several: bool = True, receive: Callable[[Step], None] | None = None
    ) -> None:
        self._scheduler, self._several, self._receive = scheduler, several, receive
        self._open, self.steps = False, 0
        self._timesteps: Any = None
        self.again = False

    def begins(self) -> bool:
        """Return whether the call of the denoiser that is about to run is the first of its step."""
        timesteps = getattr(self._scheduler, "timesteps", None)
        self._timesteps = timesteps if self._timesteps is None else self._timesteps
        self.again = self._timesteps is not timesteps
        first = self.again or not (self._open and self._several)
        self._open = True
        return first

    def attach(self, stack: contextlib.ExitStack) -> None:
        """Wrap the scheduler's method on this instance; closing the stacks, in any order, puts back what was there."""
        scheduler = self._scheduler
        if scheduler is None:
            return
        method, before = scheduler.step, vars(scheduler).get("step")
        signature = inspect.signature(type(scheduler).step)  # whatever was put over it

        @functools.wraps(getattr(method, "__func__", method))  # pipelines ask which arguments it takes
        def step(own: Any, *args: Any, **kwargs: Any) -> Any:
            if own is not scheduler:  # a copy of it, in a callback
                return type(own).step(own, *args, **kwargs)
            given = [*signature.bind_partial(own, *args, **kwargs).arguments.values()]
            if self._open and not step.left and self._receive is not None:
                with torch.no_grad():
                    self._receive(Step(*given[1:4]))
            self._open, self.steps = False, self.steps + 1
            return method(*args, **kwargs)

        def put_back() -> None:
            step.left = True
            while getattr(now := vars(scheduler).get("step"), "left", False):
                if now.before is None:
                    del scheduler.step
                else:
                    scheduler.step = now.before

        step.left, step.before = False, before
        scheduler.step = types.MethodType(step, scheduler)  # which a copy binds to itself
        stack.callback(put_back)
