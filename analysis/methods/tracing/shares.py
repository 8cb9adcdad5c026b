"""Tables ``trace_total``, ``trace_shares``, ``trace_windows`` and ``trace_heads``: effects and shares of a trace.

Shares are ratios of sums over prompts (`analysis.stats.shares`): of the total effect of one word of the contrast, or of
both together. A row is a place and an estimand:

- *sufficiency*: the donor's activations in the reference's run; *necessity*: the reference's in the donor's run;
- *floor*: as sufficiency, of the control word that moves the outcome farthest; *beyond*: sufficiency less the floor;
- of the kind *interaction*: what all ways of the text into the image do at once, less the sum of what each does alone.
  Of sufficiency it is below 0 where one of several is enough, above 0 where one needs another; of necessity the other
  way round.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from analysis.methods.tracing.effects import JOIN, WHAT, Effects, Place
from analysis.stats.shares import Shares, beyond_floor, largest_floor, mean_effects, shares
from probes.config.measurement import significance_level
from probes.stages.trace.variants import KEYS_AND_VALUES, POOLED

VERSION = "trace_shares/5"
SUFFICIENCY, NECESSITY, FLOOR, BEYOND = "sufficiency", "necessity", "floor", "beyond"
INTERACTION = "interaction"
NUMBERS = ("effect", "effect_low", "effect_high", "share", "low", "high", "p_adjusted")
SHARE_COLUMNS = ("outcome", *WHAT, "donor", "estimand", "control", *NUMBERS, "n_prompts", "reason", "version")
TOTAL_COLUMNS = ("outcome", "donor", "control", "total", "low", "high", "p_value", "n_prompts", "version")


def total_table(traced: Sequence[Effects], sampling: dict[str, Any]) -> pd.DataFrame:
    """Table ``trace_total``: one row per outcome and donor, a control word's too."""
    rows = []
    for one in traced:
        for donor in (*one.donors, *one.controls):
            result = mean_effects(one.total(donor)[:, None], **sampling)
            numbers = (result.effect, result.effect_low, result.effect_high, result.p_adjusted, result.n)
            about = one.outcome, donor, donor in one.controls
            rows.append((*about, *(number[0] for number in numbers), version(one)))
    return pd.DataFrame(rows, columns=list(TOTAL_COLUMNS))


def share_table(traced: Sequence[Effects], kinds: Iterable[str], sampling: dict[str, Any]) -> pd.DataFrame:
    """Table of the shares of patches of some kinds: one row per outcome, donor, estimand and patch.

    The patches of an outcome, donor and estimand are one family, for all of which intervals and ``p_adjusted`` hold.
    What was not generated has no row.
    """
    rows: list[dict[str, Any]] = []
    for one in traced:
        for donor in one.donors:
            if places := one.places(kinds):
                rows += _patches(one, places, donor, sampling)
            if "complete" in kinds:
                rows += _interaction(one, donor, sampling)
    return pd.DataFrame(rows, columns=list(SHARE_COLUMNS))


def version(one: Effects) -> str:
    """The versions of the shares and of the outcome."""
    return f"{VERSION}, {one.version}"


def _patches(
    one: Effects, places: Sequence[Place], donor: str, sampling: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    total = one.total(donor)
    enough, needed = (
        np.column_stack([effect(place, donor) for place in places])
        for effect in (one.sufficiency, one.necessity)
    )
    sufficiency = shares(enough, total, **sampling)
    yield from _rows(one, donor, [(place, SUFFICIENCY, "") for place in places], sufficiency)
    result = shares(needed, total, **sampling)
    yield from _rows(one, donor, [(place, NECESSITY, "") for place in places], result)
    if not one.controls:
        return
    floors = np.stack([one.floors(place) for place in places], axis=-1)  # (n_controls, n_prompts, n_patches)
    floor, chosen = largest_floor(floors)
    for estimand, result in (
        (FLOOR, shares(floor, total, **sampling)),
        (
            BEYOND,
            _more_than_nothing(
                beyond_floor(enough, total, floor, **sampling), sufficiency, sampling["level"]
            ),
        ),
    ):
        cells = [(place, estimand, one.controls[index]) for place, index in zip(places, chosen)]
        yield from _rows(one, donor, cells, result)


def _more_than_nothing(beyond: Shares, sufficiency: Shares, level: float) -> Shares:
    """Beyond the floor only where it is more than nothing, too: whose effect may be 0 may be the smaller one."""
    nothing = sufficiency.p_adjusted >= significance_level(level)
    ends = {
        name: np.where(nothing, smaller(getattr(beyond, name), 0.0), getattr(beyond, name))
        for names, smaller in ((("effect_low", "low"), np.minimum), (("effect_high", "high"), np.maximum))
        for name in names
    }
    return replace(beyond, p_adjusted=np.fmax(beyond.p_adjusted, sufficiency.p_adjusted), **ends)


def _interaction(one: Effects, donor: str, sampling: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Rows of all ways of the text into the image; none where these were not all patched alone."""
    alone = {place[WHAT.index("site")]: place for place in one.places(["site"])}
    complete = next(iter(one.places(["complete"])), None)
    ways = [alone.get(site) for site in complete[WHAT.index("site")].split(JOIN)] if complete else []
    if len(ways) < 2 or not all(place is not None and _is_way(place) for place in ways):
        return
    differences = [
        effect(complete, donor) - sum(effect(place, donor) for place in ways)
        for effect in (one.sufficiency, one.necessity)
    ]
    where = (INTERACTION, *complete[1:])
    cells = [(where, SUFFICIENCY, ""), (where, NECESSITY, "")]
    yield from _rows(one, donor, cells, shares(np.column_stack(differences), one.total(donor), **sampling))


def _is_way(place: Place) -> bool:
    """Whether a place was patched alone as the patch of all ways holds it."""
    return place[WHAT.index("part")] == KEYS_AND_VALUES or place[WHAT.index("site")] == POOLED


def _rows(
    one: Effects, donor: str, cells: Sequence[tuple[Place, str, str]], result: Shares
) -> Iterator[dict[str, Any]]:
    for index, (place, estimand, control) in enumerate(cells):
        if result.n[index]:
            yield {
                **dict(zip(WHAT, place)),
                **{"outcome": one.outcome, "donor": donor, "estimand": estimand, "control": control},
                **{name: getattr(result, name)[index] for name in (*NUMBERS, "reason")},
                **{"n_prompts": result.n[index], "version": version(one)},
            }
