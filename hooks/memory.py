"""What attention maps will take, before the pipeline runs."""

from __future__ import annotations

from typing import Any

from hooks import definitions
from hooks.attention import AttentionSums
from hooks.choice import MapChoice
from hooks.definitions import Definition
from hooks.errors import HookError
from hooks.layers import latent_size, prompt_tokens


def estimate_memory(
    pipe: Any,
    choice: bool | str | Definition | MapChoice = True,
    height: int | None = None,
    width: int | None = None,
    rows: int = 1,
    steps: int = 50,
    kind: str = "cross",
) -> int:
    """Bytes that the sums of a choice take on the device while the pipeline draws.

    Working memory (some 1 MiB on a CPU, at most 128 MiB on a GPU and a copy of the queries in work) comes on
    top, and the finished heat maps.

    Parameters
    ----------
    pipe : DiffusionPipeline
    choice
        As `Probe` takes it for `word_maps`, or for `self_attention` with kind="self".
    height, width : int, optional
        Of the image in pixels; the model's own, unless told.
    rows : int
        Images in the batch.
    steps : int
        `num_inference_steps`.
    kind : {"cross", "self"}

    Returns
    -------
    int

    Raises
    ------
    HookError
        If the choice matches no layer, or the pipeline is not supported.
    """
    definition, kept = settle(choice, kind)
    sums = AttentionSums(pipe, lambda: None, definition, kept, kind)
    tokens = prompt_tokens(pipe) if kind == "cross" else None
    calls = unet_calls(pipe, steps) if kept is not None and kept.steps != "sum" else None
    return 4 * sums.elements(rows, *latent_size(pipe, height, width), tokens, calls)


def settle(
    choice: bool | str | Definition | MapChoice, kind: str
) -> tuple[Definition | None, MapChoice | None]:
    """The definition to sum and the sums to keep apart."""
    if kind == "self":
        if not isinstance(choice, MapChoice):
            raise HookError(f"self_attention: expected a hooks.MapChoice, but got {choice!r}")
        return None, choice
    if isinstance(choice, MapChoice):
        return None if choice.definition is None else definitions.get(choice.definition), choice
    return definitions.get("daam" if choice is True else choice), None


def unet_calls(pipe: Any, steps: int) -> int:
    """UNet calls that the pipeline's scheduler makes for so many steps."""
    scheduler = type(pipe.scheduler).from_config(pipe.scheduler.config)
    scheduler.set_timesteps(steps)
    return len(scheduler.timesteps)
