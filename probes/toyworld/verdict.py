"""The verdict: how much what is seen in a toyworld image speaks for mixture component *b* against *a*.

Slots of a scene are drawn independently given the component (:file:`world.yaml`), so the log-odds are a sum over slots,
exact for whatever the checker reads. What the prompt names is set, whatever the component, and is left out; as it is
put there by intervention, it says nothing about the rest either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from probes.toyworld.scene import IN_VIEW, WORN, CaptionContent, parse
from probes.toyworld.world import WHOLE_BODY, World

if TYPE_CHECKING:
    import pandas as pd

VERSION = "toyworld-verdict/1"
# Share of slots that are taken for drawn by chance alone, every value equally: *dress* has probability 0 in component b
# and a model still draws one now and then, so its evidence must stay finite (6.5 instead of infinity).
SMOOTHING = 0.005
PLAIN = (*WORN[2:], "ground", "sky", "place")
SLOTS = ("upper", "lower", *PLAIN, "side")


def slots_set_by_prompt(content: CaptionContent) -> tuple[str, ...]:
    """Return the slots, such as ``upper`` or ``sky``, that a prompt's content fixes; the verdict leaves them out.

    A whole-body garment that is named hides what is worn below, so both slots are left out. The side is never named.
    """
    slots = {*content.slots, *content.objects} | ({"place"} if content.place else set())
    if content.slots.get("upper") in WHOLE_BODY:
        slots.add("lower")
    return tuple(slot for slot in SLOTS if slot in slots)


def verdict(
    readings: pd.DataFrame,
    prompts: Sequence[str | CaptionContent],
    world: World,
    *,
    smoothing: float = SMOOTHING,
) -> np.ndarray:
    """Return each image's log-odds ``(n,)`` of component *b* to *a*, from the slots that its prompt leaves open.

    Components are the feminine (*a*) and masculine (*b*) frequencies planted in ``world``. The sum over those slots
    of ``log P(seen | b) - log P(seen | a)``, each table mixed with ``smoothing`` parts of an even one. Where more is
    seen in a slot than one thing (half-drawn images), the scene is taken to hold one of them: their probabilities are
    added. A whole-body garment hides the lower slot, which then says nothing; seen together with a lower garment,
    either the one or the other is there. The side counts where an object on the ground, named or not, shows it.

    `readings` are those of `probes.toyworld.checker.read_images`. Natural logarithm; 0: no evidence. With a smoothing
    of 0 evidence may be infinite, or NaN where neither component can draw what is seen.
    """
    if len(readings) != len(prompts):
        raise ValueError(f"expected a prompt an image, got {len(prompts)} of {len(readings)} images")
    read = {prompt: parse(prompt, world) for prompt in {p for p in prompts if isinstance(p, str)}}
    contents = [read[prompt] if isinstance(prompt, str) else prompt for prompt in prompts]
    with np.errstate(divide="ignore", invalid="ignore"):
        log_b, log_a = (_log_probability(readings, contents, world, one, smoothing) for one in "ba")
        return log_b - log_a


def _smooth_table(table: dict[str, float], smoothing: float) -> dict[str, float]:
    """Return a table of weights by value as probabilities, mixed with a share `smoothing` of the even distribution."""
    total = sum(table.values())
    return {name: (1 - smoothing) * weight / total + smoothing / len(table) for name, weight in table.items()}


def _probability_of_seen(readings: pd.DataFrame, table: dict[str, float], names: Sequence[str]) -> np.ndarray:
    """Return, per image, the sum of the probabilities in `table` of those `names` that are seen in it, ``(n,)``."""
    return sum((readings[name].to_numpy(bool) * table[name] for name in names), np.zeros(len(readings)))


def _any_seen(readings: pd.DataFrame, names: Sequence[str]) -> np.ndarray:
    """Return whether any of the things `names` is seen in each image, bool ``(n,)``."""
    return readings[list(names)].to_numpy(bool).any(1)


def _slot_probability(readings: pd.DataFrame, table: dict[str, float]) -> np.ndarray:
    """Return, per image, the probability in a slot's `table` of what is seen, ``(n,)``; of *none* if nothing is."""
    names = [name for name in table if name != "none"]
    nothing = ~_any_seen(readings, names) * table.get("none", 1.0)
    return nothing + _probability_of_seen(readings, table, names)


def _log_probability(
    readings: pd.DataFrame, contents: Sequence[CaptionContent], world: World, component: str, smoothing: float
) -> np.ndarray:
    """Return ``log P(seen | component)`` of each image, ``(n,)``, over the slots that its prompt does not set."""
    left = [slots_set_by_prompt(one) for one in contents]
    out = {slot: np.array([slot in slots for slots in left]) for slot in SLOTS}
    planted = {slot: choices[component] for slot, choices in world.slots.items()}
    tables = {slot: _smooth_table(table, smoothing) for slot, table in planted.items()}
    # where the prompt names the lower garment, the upper one is drawn from those that leave it in view
    in_view = {name: weight * (name in IN_VIEW) for name, weight in planted["upper"].items()}
    # what is worn above and below goes together: a whole-body garment hides the lower one
    upper = tables["upper"]
    lower = np.where(out["lower"], 1.0, _slot_probability(readings, tables["lower"]))
    front = [name for name in upper if name not in (*WHOLE_BODY, "none")]
    below = [name for name in tables["lower"] if name != "none"]
    # without a whole-body garment, or beside one that is there in halves only
    unsure = ~_any_seen(readings, WHOLE_BODY) | _any_seen(readings, front) | _any_seen(readings, below)
    free = unsure * _slot_probability(
        readings[front], {"none": upper["none"], **{name: upper[name] for name in front}}
    )
    free = free * lower + _probability_of_seen(readings, upper, WHOLE_BODY)
    over_lower = _slot_probability(readings, _smooth_table(in_view, smoothing))
    total = np.log(np.where(out["upper"], lower, np.where(out["lower"], over_lower, free)))
    for slot in PLAIN:
        total += np.where(out[slot], 0.0, np.log(_slot_probability(readings, tables[slot])))
    return total + np.log(readings["side"].map({**tables["side"], "": 1.0}).to_numpy(float))
