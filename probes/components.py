"""The components of a pipeline: what its weights and its scheduler are known by, and schedulers by name."""

from __future__ import annotations

import difflib
import hashlib
import inspect
import json
from typing import Any

from probes.errors import UserError

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


def modules(pipe: Any) -> dict[str, Any]:
    """The components of a pipeline that have weights, by name."""
    import torch

    names = ("text_encoder", "text_encoder_2", "unet", "vae")
    modules = {name: getattr(pipe, name, None) for name in names}
    return {name: module for name, module in modules.items() if isinstance(module, torch.nn.Module)}


def weight_hash(pipe: Any) -> str:
    """SHA-256 over every weight of the pipeline: names, shapes, number formats and bytes.

    The same weights give the same hash whether they came from a folder, a single file or the hub.
    """
    import torch

    total = hashlib.sha256()
    for name, module in sorted(modules(pipe).items()):
        for key, tensor in sorted(module.state_dict().items()):
            if key.endswith("position_ids"):  # a constant that some versions of transformers store
                continue
            total.update(f"{name}.{key} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
            data = tensor.detach().to("cpu").contiguous().reshape(-1)
            total.update(memoryview(data.view(torch.uint8).numpy()))
    return total.hexdigest()


def scheduler_record(scheduler: Any) -> dict[str, Any]:
    """A scheduler's class and settings as plain data; settings left at a library's default are apart.

    Returns
    -------
    dict
        ``{"class": ..., "set": {...}, "default": {...}}``. Only class and ``set`` identify a run: a new
        version of diffusers may add settings without altering what an old one did.
    """
    config = {key: value for key, value in dict(scheduler.config).items() if not key.startswith("_")}
    plain = json.loads(json.dumps(config, default=str, sort_keys=True))
    default = set(scheduler.config.get("_use_default_values", []))
    return {
        "class": type(scheduler).__name__,
        "set": {key: value for key, value in plain.items() if key not in default},
        "default": {key: value for key, value in plain.items() if key in default},
    }


def pick_scheduler(name: str, current: Any) -> Any:
    """A scheduler by name, with the settings of the model's own.

    Parameters
    ----------
    name
        A key of ``SCHEDULERS`` or the name of a class of diffusers.
    current
        The model's scheduler.

    Raises
    ------
    UserError
        There is no scheduler of that name.
    """
    import diffusers

    cls = getattr(diffusers, SCHEDULERS.get(name.lower(), name), None)
    if not (
        inspect.isclass(cls) and issubclass(cls, diffusers.SchedulerMixin) and hasattr(cls, "from_config")
    ):
        close = difflib.get_close_matches(name.lower(), SCHEDULERS, 1)
        remedy = f"did you mean {close[0]}?" if close else "choose one of them"
        raise UserError(f"sampler.scheduler: expected one of {', '.join(SCHEDULERS)}, got {name!r}: {remedy}")
    # Stable Diffusion's PNDM leaves the Runge-Kutta steps out; a model with another scheduler does not say so
    more = {"skip_prk_steps": True} if cls is diffusers.PNDMScheduler else {}
    return cls.from_config(current.config, **more)
