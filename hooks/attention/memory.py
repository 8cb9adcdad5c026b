"""Memory that attention maps will take, before the pipeline runs."""

from __future__ import annotations

from typing import Any

from hooks.architectures.registry import architecture_of
from hooks.architectures.text_encoders import prompt_tokens
from hooks.attention import definitions
from hooks.attention.attention import AttentionSums
from hooks.attention.choice import MapChoice
from hooks.attention.definitions import Definition
from hooks.errors import HookError


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
        Of the image in pixels; the model's own, by default.
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
    chosen = settle(choice, None) if kind == "cross" else settle(False, choice)
    architecture, total = architecture_of(pipe), 0
    size = architecture.latent_size(pipe, height, width)
    for attention, definition, kept in chosen:
        sums = AttentionSums(pipe, lambda: None, definition, kept, attention)
        tokens = prompt_tokens(pipe) if attention == "cross" else None
        calls = architecture.calls(pipe, steps) if kept is not None and kept.steps != "sum" else None
        total += 4 * sums.elements(rows, *size, tokens, calls)
    return total


def settle(
    word_maps: bool | str | Definition | MapChoice, self_attention: MapChoice | None
) -> list[tuple[str, Definition | None, MapChoice | None]]:
    """Return which sums to make: kind of attention, the definition to sum, the sums to keep apart.

    Raises
    ------
    HookError
        `self_attention` is no :class:`hooks.MapChoice`.
    """
    if not isinstance(self_attention, MapChoice | None):
        raise HookError(f"self_attention: expected a hooks.MapChoice, but got {self_attention!r}")
    definition, kept = None, None
    if isinstance(word_maps, MapChoice):
        kept = word_maps
        definition = None if kept.definition is None else definitions.get(kept.definition)
    elif word_maps not in (False, None):
        definition = definitions.get("daam" if word_maps is True else word_maps)
    refining = definition if definition is not None and definition.refine else None
    wanted = [("cross", definition, kept), ("self", refining, self_attention)]
    return [one for one in wanted if one[1:] != (None, None)]
