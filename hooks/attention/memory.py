"""Memory that attention maps will take, before the pipeline runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hooks.architectures.batch import Call
from hooks.architectures.registry import architecture_of
from hooks.attention import definitions
from hooks.attention.attention import AttentionSums
from hooks.attention.choice import MapChoice
from hooks.attention.definitions import Definition
from hooks.attention.final import FinalSums
from hooks.errors import HookError

WORDS = 32  # tokens of words, of which a transformer's maps have a column each, where no prompt is known


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
    top, and the finished heat maps. Of a transformer: for prompts whose words have 32 tokens.

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
    architecture, total = architecture_of(pipe), 0
    named = definitions.default_name(architecture.readings)
    chosen = settle(choice, None, named) if kind == "cross" else settle(False, choice, named)
    size = architecture.latent_size(pipe, height, width)
    size = tuple(side // architecture.patch(pipe) for side in size)
    for attention, definition, kept in chosen:
        sums = sums_of(pipe, lambda: None, definition, kept, attention)
        tokens = architecture.prompt_tokens(pipe) if attention == "cross" else None
        if architecture.transformer:
            tokens = WORDS + 1
        calls = architecture.calls(pipe, steps) if kept is not None and kept.steps != "sum" else None
        total += 4 * sums.elements(rows, *size, tokens, calls)
    return total


def sums_of(
    pipe: Any,
    call: Callable[[], Call | None],
    definition: Definition | None,
    kept: MapChoice | None,
    kind: str,
) -> AttentionSums:
    """The sums of a pipeline's attentions, read as its architecture is read; arguments are those of `AttentionSums`."""
    architecture = architecture_of(pipe)
    if not architecture.transformer:
        if definition is not None and definition.reading != "probability":
            raise HookError(
                f"definition {definition.name!r}: is of transformers, but {type(pipe).__name__} draws with a U-Net: "
                f"choose {definitions.default_name(architecture.readings)}"
            )
        return AttentionSums(pipe, call, definition, kept, kind)
    if kind == "self":
        raise HookError("self_attention: is read in U-Nets alone: leave it out")
    return FinalSums(pipe, call, definition, kept, kind)


def settle(
    word_maps: bool | str | Definition | MapChoice, self_attention: MapChoice | None, named: str
) -> list[tuple[str, Definition | None, MapChoice | None]]:
    """Return which sums to make: kind of attention, the definition to sum, the sums to keep apart.

    `named` is the definition that stands for the default.

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
        wanted_one = named if kept.definition == "default" else kept.definition
        definition = None if wanted_one is None else definitions.get(wanted_one)
    elif word_maps not in (False, None):
        definition = definitions.get(named if word_maps is True else word_maps)
    refining = definition if definition is not None and definition.refine else None
    wanted = [("cross", definition, kept), ("self", refining, self_attention)]
    return [one for one in wanted if one[1:] != (None, None)]
