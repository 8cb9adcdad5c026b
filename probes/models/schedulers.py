"""Schedulers by name, with the model's settings, and whether one can drive a model: found by trying it."""

from __future__ import annotations

import difflib
import inspect
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hooks.architectures.base import Architecture, set_steps
from probes.errors import UserError, first_line

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
_TRIED = 50  # steps of a trial, at most
_MOST_TIMESTEPS = 100_000
_STEP = {"model_output", "timestep", "sample"}
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


def scheduler_class(name: str) -> type | None:
    """A scheduler's class by a key of ``SCHEDULERS`` or its name in diffusers; None if there is none."""
    import diffusers

    cls = getattr(diffusers, SCHEDULERS.get(name.lower(), name), None)
    try:
        known = inspect.isclass(cls) and (issubclass(cls, diffusers.SchedulerMixin) or _placeholder(cls))
        return cls if known and hasattr(cls, "from_config") else None
    except ImportError:  # a placeholder of diffusers raises it when it is looked into
        return cls


def _placeholder(cls: type) -> bool:
    """Return whether diffusers puts the class in the place of one whose library is not installed."""
    return bool(getattr(type(cls), "__name__", "") == "DummyObject" and "Scheduler" in cls.__name__)


def pick_scheduler(name: str, current: Any, architecture: Architecture, steps: int | None = None) -> Any:
    """A scheduler by a key of ``SCHEDULERS`` or a class of diffusers, with the settings of the model's own."""
    import diffusers

    cls = scheduler_class(name)
    if cls is None or cls is diffusers.SchedulerMixin:
        close = difflib.get_close_matches(name.lower(), SCHEDULERS, 1)
        remedy = f"did you mean {close[0]}?" if close else "choose one of them"
        raise UserError(f"{_FIELD}: expected one of {', '.join(SCHEDULERS)}, got {name!r:.60}: {remedy}")
    # what the model's scheduler leaves at its default would give way to the other's default
    more = {key: current.config[key] for key in _TRAINED if key in current.config and key in _settings(cls)}
    if cls is diffusers.PNDMScheduler:  # Stable Diffusion's leaves the Runge-Kutta steps out
        more["skip_prk_steps"] = True
    try:
        chosen = cls.from_config(current.config, **more)
    except ImportError as error:
        raise _unusable(architecture, _FIELD, cls.__name__, f"cannot be had ({first_line(error)})") from None
    except Exception as error:  # a class with other settings raises errors of every kind
        why = f"cannot take the model's settings ({first_line(error)})"
        raise _unusable(architecture, _FIELD, cls.__name__, why) from None
    require_usable(chosen, architecture, steps, like=current)
    return chosen


def _settings(cls: type) -> set[str]:
    """Names of the settings that a class takes; none of a placeholder."""
    try:
        return set(inspect.signature(cls.__init__).parameters)
    except (ImportError, ValueError):
        return set()


def require_usable(
    scheduler: Any,
    architecture: Architecture,
    steps: int | None = None,
    *,
    like: Any = None,
    place: str = _FIELD,
) -> None:
    """Refuse a scheduler that cannot drive a model or make so many steps, by what its class can do and by a trial.

    `like` is the scheduler in whose place it stands: noise and prediction type must be the same.
    """
    name = type(scheduler).__name__
    # some need more than two steps for their first order
    why = _interface(scheduler, architecture.scheduler_methods) or _noise(scheduler, architecture, like)
    why = why or (_trial(scheduler, 2) and _trial(scheduler, 20))
    if why:
        raise _unusable(architecture, place, name, why)
    why = _trial(scheduler, steps) if steps else None
    if why:
        raise UserError(f"sampler.steps: expected what {name} can do, got {steps}, {why}: change it")


def _unusable(architecture: Architecture, place: str, name: str, why: str) -> UserError:
    # those with a name of their own here drive what predicts the noise
    named = f"one of {', '.join(SCHEDULERS)}" if "epsilon" in architecture.predicts else "the model's own"
    return UserError(
        f"{place}: expected a scheduler that can drive {architecture.name}, got {name}, which {why}: use {named}"
    )


def _interface(scheduler: Any, methods: Sequence[str]) -> str | None:
    """Return why the pipeline, which calls these methods, cannot call it."""
    for name in methods:
        if not callable(getattr(scheduler, name, None)):
            return f"has no {name}()"
    if not hasattr(scheduler, "order"):
        return "has no order"
    needed = {
        key
        for key, value in inspect.signature(scheduler.step).parameters.items()
        if value.default is value.empty and value.kind is value.POSITIONAL_OR_KEYWORD
    }
    if needed != _STEP:
        return f"steps from {', '.join(sorted(needed - _STEP)) or 'less than a sample'}, which no pipeline of it has"
    return None


def _noise(scheduler: Any, architecture: Architecture, like: Any) -> str | None:
    """Return why its noise is not the one that the model was trained with."""
    import torch

    kind, kinds = architecture.prediction_type(scheduler), architecture.predicts
    if kind not in kinds:
        return f"has the prediction type {kind!r:.40} and not {', '.join(kinds)}"
    if scheduler.config.get("use_flow_sigmas") and "flow_prediction" not in kinds:
        return "matches flows"
    if like is None:
        return None
    if len(kinds) > 1 and "prediction_type" not in inspect.signature(type(scheduler).__init__).parameters:
        return "knows no prediction type"
    own = architecture.prediction_type(like)
    if kind != own:
        return f"would read the model's {own} as {kind}"
    levels, wanted = (getattr(each, "alphas_cumprod", None) for each in (scheduler, like))
    if wanted is not None and (
        levels is None
        or levels.shape != wanted.shape
        or not torch.allclose(levels.cpu().float(), wanted.cpu().float(), atol=1e-6)
    ):
        return "has other noise levels than the model was trained with"
    return None


def _trial(scheduler: Any, steps: int) -> str | None:
    """Return why it fails when it is driven as a pipeline drives it, with a prediction of nothing."""
    import torch

    accepted = inspect.signature(scheduler.step).parameters
    drawn = []
    try:
        for state in (1, 2):  # noise must come from the generator it is given, not from the process
            trial = type(scheduler).from_config(scheduler.config)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(state)
                generator = torch.Generator().manual_seed(0)
                set_steps(trial, steps)
                times = trial.timesteps
                if len(times) > 1 and bool((times[1:] > times[:-1]).any()):
                    return "adds noise and does not take it away"
                # those that match flows have neither of the two
                scaled = getattr(trial, "scale_model_input", lambda sample, time: sample)
                sample = torch.full((1, 4, 2, 2), 0.5) * getattr(trial, "init_noise_sigma", 1.0)
                for time in times[:_TRIED]:
                    output = torch.full_like(scaled(sample, time), 0.1)
                    more = {"generator": generator} if "generator" in accepted else {}
                    sample = trial.step(output, time, sample, return_dict=False, **more)[0]
            drawn.append(sample)
    except Exception as error:  # a class made for other models raises errors of every kind
        return f"fails with `{first_line(error)}`"
    if len(times) < min(steps, 2):
        return f"makes {len(times)} steps"
    if not all(torch.isfinite(sample).all() for sample in drawn):
        return "gives no finite sample"
    if not torch.equal(*drawn):
        return "draws noise that no seed fixes"
    return None


def build_scheduler(kind: str, config: dict[str, Any]) -> Any:
    """A scheduler of a class of diffusers from its settings."""
    cls = scheduler_class(kind)
    if cls is None:
        raise ValueError(f"diffusers has no scheduler {kind!r:.60}")
    number = config.get("num_train_timesteps", 1000)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number <= _MOST_TIMESTEPS:
        raise ValueError(f"num_train_timesteps of 1 to {_MOST_TIMESTEPS} is wanted, not {number!r:.40}")
    try:
        return cls.from_config(config)
    except Exception as error:  # damaged settings raise errors of every kind
        raise ValueError(first_line(error)) from error


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
