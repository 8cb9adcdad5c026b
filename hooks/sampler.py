"""Steps of a sampler: what lies between two calls of `scheduler.step`, and what the scheduler is given there.

Pipelines of transformers may call the denoiser several times in one step (a second call for the negative prompt, a
third that skips layers), change the sign of its output, or rescale the guided prediction. All of that has happened
where `scheduler.step` is called: its model output is the guided prediction, its sample x_t.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Step:
    """What a scheduler is given.

    Attributes
    ----------
    output : Tensor
        The guided prediction, as the pipeline lays it out.
    timestep : number or Tensor
    sample : Tensor, of the shape of `output`
        x_t.
    """

    output: Tensor
    timestep: Any
    sample: Tensor


class StepCounter:
    """Tells which calls of a denoiser begin a step.

    Parameters
    ----------
    scheduler
        None: every call is a step.
    receive : callable, optional
        Is handed each `Step`, before the scheduler goes on.
    """

    def __init__(self, scheduler: Any | None, receive: Callable[[Step], None] | None = None) -> None:
        self._scheduler, self._receive = scheduler, receive
        self._open = False

    def begins(self) -> bool:
        """Return whether the call of the denoiser that is about to run is the first of its step."""
        first = not self._open
        self._open = self._scheduler is not None
        return first

    def attach(self, stack: contextlib.ExitStack) -> None:
        """Wrap the scheduler's method on this instance; closing the stack puts back what was there."""
        scheduler = self._scheduler
        if scheduler is None:
            return
        method, before = scheduler.step, vars(scheduler).get("step")
        signature = inspect.signature(method)

        @functools.wraps(method)  # pipelines ask which arguments it takes
        def step(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind_partial(*args, **kwargs).arguments
            if self._open and self._receive is not None:
                with torch.no_grad():
                    self._receive(Step(given["model_output"], given["timestep"], given["sample"]))
            self._open = False
            return method(*args, **kwargs)

        def put_back() -> None:
            if before is None:
                del scheduler.step
            else:
                scheduler.step = before

        scheduler.step = step
        stack.callback(put_back)
