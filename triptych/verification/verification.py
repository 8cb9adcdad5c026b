"""The verification of a model on this machine: all checks in order."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from probes.errors import first_line
from probes.models import loading
from probes.models.weights import deterministic
from triptych.installation import NAMED, version
from triptych.verification import setups
from triptych.verification.checks import Checks, Outcome
from triptych.verification.record import FAIL, PASS, UNTESTED, Line, Verification
from triptych.verification.softmax import UntestableError

CHECKS: dict[str, Callable[[Checks], Outcome]] = {
    "versions": Checks.versions,
    "device": Checks.device,
    "images": Checks.image,
    "word maps": Checks.maps,
    "word maps of daam": Checks.daam,
    "latents": Checks.latents,
    "x₀ of the last step": Checks.x0,
    "final latent and image": Checks.decoded,
    "text states": Checks.text,
    "rows of guidance": Checks.guidance,
    "tokens of words": Checks.tokens,
    "patch of own states": Checks.patch_own,
    "patch of another text": Checks.patch_other,
    "time and memory": Checks.cost,
    "LoRA": setups.lora,
    "offload": setups.offload,
    "weights": Checks.weights,
    "quantized": setups.quantized,
}


def verify(
    model: str,
    folder: Path,
    tell: Callable[[Line], None],
    *,
    images: int,
    steps: int,
    size: int | None,
    device: str,
    dtype: str,
) -> Verification:
    """Make all checks of a model, and a run in ``folder/run``; `tell` is given each line when it is known.

    UserError or HookError for a model that cannot be loaded or is not read.
    """
    loaded = loading.load(loading.resolve(model), device=device, dtype=dtype)
    about = {key: loaded.record[key] for key in ("id", "kind", "pipeline", "parameters", "weight_hash")}
    lines: list[Line] = []

    def add(name: str, check: Callable[[], Outcome]) -> None:
        """Add the line of a check."""
        lines.append(_line(name, check))
        tell(lines[-1])

    with deterministic(torch.get_num_threads()):
        checks = Checks(loaded, images, steps, size)
        for name, check in CHECKS.items():
            add(name, partial(check, checks))
    call: dict[str, Any] = {"images": images, **checks.call}
    about |= {"family": checks.architecture.name, "dtype": loaded.dtype}
    del checks
    loaded.pipe = None  # the run loads it again
    gc.collect()
    torch.cuda.empty_cache()
    add("run", partial(setups.run, model, call, device, dtype, folder))
    versions = {name: version(name) for name in ("triptych", *NAMED[:3], "peft", "torchao")}
    machine = {
        "device": next(line.numbers["name"] for line in lines if line.check == "device"),
        **{name: one for name, one in versions.items() if one},
    }
    return Verification({"model": about, "machine": machine, "call": call}, tuple(lines))


def _line(name: str, check: Callable[[], Outcome]) -> Line:
    """Return the line of a check; an error in it is a failure, and the others are made all the same."""
    try:
        passed, text, numbers = check()
    except UntestableError as reason:
        return Line(name, UNTESTED, str(reason), {})
    except Exception as error:  # what does not work is what is to be handed back
        return Line(name, FAIL, f"{type(error).__name__}: {first_line(error)}", {})
    return Line(name, PASS if passed else FAIL, text, numbers)
