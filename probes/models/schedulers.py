"""Schedulers by name, with the model's settings: those that diffusers exchanges for the model's own."""

from __future__ import annotations

import difflib
import inspect
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hooks.architectures.base import Architecture, set_steps
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
# which diffusers counts as interchangeable, and which are not here
_EXCEPTIONS = {
    "DPMSolverSDEScheduler": "draws noise that no seed fixes",
    "EDMEulerScheduler": "has other noise levels than the model was trained with",
}
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
    own, architecture = _own_scheduler(source), source.architecture
    if name is not None:
        own = pick_scheduler(name, own, architecture)
    missing = [one for one in architecture.scheduler_methods if not callable(getattr(own, one, None))]
    kind = architecture.prediction_type(own)
    why = f"has no {missing[0]}()" if missing else None
    if not missing and kind not in architecture.predicts:
        why = f"has the prediction type {kind!r:.40} and not {', '.join(architecture.predicts)}"
    place = f"model {source.name}: {SCHEDULER}" if name is None else _FIELD
    try:
        if why is None:
            set_steps(type(own).from_config(own.config), steps or 2)
    except Exception as error:  # damaged settings raise errors of every kind
        if steps is not None:
            made = f"expected what {type(own).__name__} can do, got {steps}"
            raise UserError(f"sampler.steps: {made}, `{first_line(error)}`: change it") from None
        why = f"fails with `{first_line(error)}`"
    if why is not None:
        raise _unusable(architecture, place, own, why)
    return own


def _own_scheduler(source: Source) -> Any:
    """The model's scheduler from its description."""
    import diffusers

    kind, config = source.index["scheduler"][1], source.read(SCHEDULER)
    cls = getattr(diffusers, str(kind), None)
    if not inspect.isclass(cls) or not issubclass(cls, diffusers.SchedulerMixin):
        raise source.fault(SCHEDULER, "a scheduler of diffusers", f"{kind!s:.60}", "mend it")
    with source.readable(SCHEDULER, f"the settings of a {kind!s:.60}", "mend it"):
        return cls.from_config(config)


def pick_scheduler(name: str, current: Any, architecture: Architecture) -> Any:
    """A scheduler by a key of ``SCHEDULERS`` or a class of diffusers, with the settings of the model's own."""
    compatible = {one.__name__: one for one in current.compatibles}
    wanted = SCHEDULERS.get(name.lower(), name)
    if wanted in _EXCEPTIONS:
        raise _unusable(architecture, _FIELD, wanted, _EXCEPTIONS[wanted])
    if wanted not in compatible:
        import diffusers

        if inspect.isclass(getattr(diffusers, wanted, None)) and wanted.endswith("Scheduler"):
            why = f"diffusers does not exchange for the model's {type(current).__name__}"
            raise _unusable(architecture, _FIELD, wanted, why)
        close = difflib.get_close_matches(name.lower(), SCHEDULERS, 1)
        remedy = f"did you mean {close[0]}?" if close else "choose one of them"
        raise UserError(f"{_FIELD}: expected one of {', '.join(SCHEDULERS)}, got {name!r:.60}: {remedy}")
    cls = compatible[wanted]
    # what the model's scheduler leaves at its default would give way to the other's default
    taken = inspect.signature(cls.__init__).parameters
    more = {key: current.config[key] for key in _TRAINED if key in current.config and key in taken}
    if wanted == "PNDMScheduler":  # Stable Diffusion's leaves the Runge-Kutta steps out
        more["skip_prk_steps"] = True
    try:
        return cls.from_config(current.config, **more)
    except Exception as error:  # a class with other settings raises errors of every kind
        why = f"cannot take the model's settings ({first_line(error)})"
        raise _unusable(architecture, _FIELD, wanted, why) from None


def _unusable(architecture: Architecture, place: str, scheduler: Any, why: str) -> UserError:
    name = scheduler if isinstance(scheduler, str) else type(scheduler).__name__
    # those with a name of their own here drive what predicts the noise
    named = f"one of {', '.join(SCHEDULERS)}" if "epsilon" in architecture.predicts else "the model's own"
    return UserError(
        f"{place}: expected a scheduler that can drive {architecture.name}, got {name}, which {why}: use {named}"
    )


def noise_share(scheduler: Mapping[str, Any], timesteps: Sequence[float]) -> np.ndarray:
    """Return how much of a noisy latent a x₀ + s ε is noise, s / (a + s), at each timestep.

    σ itself of a flow-matching scheduler, whose a is 1 − σ; NaN where the scheduler keeps neither. `scheduler` has
    ``class`` and ``set`` as in ``run.json``.
    """
    given = np.asarray(timesteps, float)
    if "class" not in scheduler:
        return np.full(given.shape, np.nan)
    import diffusers

    settings = dict(scheduler.get("set", {}))
    made = getattr(diffusers, str(scheduler["class"])).from_config(settings)
    if hasattr(made, "alphas_cumprod") and not settings.get("use_flow_sigmas"):
        alphas = np.asarray(made.alphas_cumprod, float)[np.clip(given.round().astype(int), 0, None)]
        signal, noise = np.sqrt(alphas), np.sqrt(1 - alphas)
        return noise / (signal + noise)
    if "FlowMatch" in str(scheduler["class"]) or settings.get("use_flow_sigmas"):
        return given / float(made.config.num_train_timesteps)
    return np.full(given.shape, np.nan)
