"""Which sums of attention a probe makes for what it was asked for."""

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
