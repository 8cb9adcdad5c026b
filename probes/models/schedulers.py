"""Schedulers by name, with the model's settings: those that diffusers exchanges for the model's own."""

from __future__ import annotations

import difflib
import inspect
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hooks.architectures.base import set_steps
from probes.errors import UserError, first_line
from probes.models.source import SCHEDULER, Source

SCHEDULERS = {
    "ddim": "DDIMScheduler",
    "ddpm": "DDPMScheduler",
    "dpm": "DPMSolverMultistepScheduler",
    "euler": "EulerDiscreteScheduler",
    "euler_ancestral": "EulerAncestralDiscreteScheduler",
    "heun": "HeunDiscreteScheduler",
    "lms": "LMSDiscreteScheduler",
    "pndm": "PNDMScheduler",
    "unipc": "UniPCMultistepScheduler",
}

_FIELD = "sampler.scheduler"
# interchangeable to diffusers, and not here: one draws noise that no seed fixes, one has noise levels of its own
_EXCEPTIONS = ("DPMSolverSDEScheduler", "EDMEulerScheduler")
# how the model was trained, whatever draws with it
_TRAINED = (
    "num_train_timesteps",
    "beta_start",
    "beta_end",
    "beta_schedule",
    "trained_betas",
    "prediction_type",
)


def scheduler_record(scheduler: Any) -> dict[str, Any]:
    """A scheduler as ``{"class": ..., "set": {...}, "default": {...}}``.

    Only class and ``set`` identify a run: a new version of diffusers may add settings without altering what an old one
    did.
    """
    config = {key: value for key, value in dict(scheduler.config).items() if not key.startswith("_")}
    plain = json.loads(json.dumps(config, default=str, sort_keys=True))
    default = set(scheduler.config.get("_use_default_values", []))
    return {
        "class": type(scheduler).__name__,
        "set": {key: value for key, value in plain.items() if key not in default},
        "default": {key: value for key, value in plain.items() if key in default},
    }


def usable_scheduler(source: Source, name: str | None = None, steps: int | None = None) -> Any:
    """The model's own scheduler, or another in its place by a key of ``SCHEDULERS`` or a class of diffusers.

    Refused is one that cannot drive the model, or cannot make so many `steps`.
    """
    import diffusers

    architecture, kind = source.architecture, source.index["scheduler"][1]
    config = source.read(SCHEDULER)
    with source.readable(SCHEDULER, f"the settings of a scheduler, {kind!s:.60}", "mend it"):
        chosen = getattr(diffusers, kind).from_config(config)
    if name is not None:
        chosen = pick_scheduler(name, chosen)
    cls, predicted = type(chosen).__name__, architecture.prediction_type(chosen)
    missing = [one for one in architecture.scheduler_methods if not callable(getattr(chosen, one, None))]
    if missing:
        why = f"has no {missing[0]}()"
    elif predicted not in architecture.predicts:
        why = f"has the prediction type {predicted!r:.40} and not {', '.join(architecture.predicts)}"
    else:
        try:
            set_steps(type(chosen).from_config(chosen.config), steps or 2)
            return chosen
        except Exception as error:  # damaged settings raise errors of every kind
            why = f"fails with `{first_line(error)}`"
            if steps is not None:
                expected = f"expected what {cls} can do, got {steps}, which {why}"
                raise UserError(f"sampler.steps: {expected}: change it") from None
    place = f"model {source.name}: {SCHEDULER}" if name is None else _FIELD
    remedy = f"use one of {', '.join(SCHEDULERS)}" if "epsilon" in architecture.predicts else "mend it"
    expected = f"expected a scheduler that can drive {architecture.name}, got {cls}, which {why}"
    raise UserError(f"{place}: {expected}: {remedy}")


def pick_scheduler(name: str, current: Any) -> Any:
    """A scheduler that diffusers exchanges for the current one, with its settings."""
    compatible = {one.__name__: one for one in current.compatibles if one.__name__ not in _EXCEPTIONS}
    cls = compatible.get(SCHEDULERS.get(name.lower(), name))
    if cls is None:
        named = [key for key, value in SCHEDULERS.items() if value in compatible] or [*compatible]
        close = difflib.get_close_matches(name.lower(), named, 1)
        remedy = f"did you mean {close[0]}?" if close else "choose one of them"
        expected = (
            f"expected one of {', '.join(named)}, which diffusers exchanges for {type(current).__name__}"
        )
        raise UserError(f"{_FIELD}: {expected}, got {name!r:.60}: {remedy}")
    # what the model's scheduler leaves at its default would give way to the other's default
    taken = inspect.signature(cls.__init__).parameters
    more = {key: current.config[key] for key in _TRAINED if key in current.config and key in taken}
    if cls.__name__ == "PNDMScheduler":  # Stable Diffusion's leaves the Runge-Kutta steps out
        more["skip_prk_steps"] = True
    return cls.from_config(current.config, **more)


def noise_share(scheduler: Mapping[str, Any], timesteps: Sequence[float]) -> np.ndarray:
    """Return how much of a noisy latent a x₀ + s ε is noise, s / (a + s), at each timestep.

    σ itself of a flow-matching scheduler, whose a is 1 − σ; NaN where the scheduler keeps neither. `scheduler` has
    ``class`` and ``set`` as in ``run.json``.
    """
    import diffusers

    given = np.asarray(timesteps, float)
    kind, settings = str(scheduler.get("class")), dict(scheduler.get("set", {}))
    flow = "FlowMatch" in kind or settings.get("use_flow_sigmas")
    made = getattr(diffusers, kind).from_config(settings) if "class" in scheduler else None
    if hasattr(made, "alphas_cumprod") and not settings.get("use_flow_sigmas"):
        alphas = np.asarray(made.alphas_cumprod, float)[np.clip(given.round().astype(int), 0, None)]
        signal, noise = np.sqrt(alphas), np.sqrt(1 - alphas)
        return noise / (signal + noise)
    return given / float(made.config.num_train_timesteps) if flow else np.full(given.shape, np.nan)
