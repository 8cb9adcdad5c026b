"""Tables ``trace_total``, ``trace_shares``, ``trace_windows`` and ``trace_heads``: where a trace finds its effect.

Shares are ratios of sums over prompts (`analysis.stats.shares`): of the total effect of one word of the contrast, or of
both together. Sufficiency and necessity stand side by side; the floor is the share of the control word that moves the
outcome farthest, and a patch counts for what is beyond it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.tracing.effects import WHAT, Effects, Place
from analysis.stats.bootstrap import bootstrap_interval
from analysis.stats.ratio_sets import RatioSets, mean_p_values, mean_sets
from analysis.stats.resampling import matrix
from analysis.stats.shares import Shares, beyond_floor, largest_floor, no_total, shares
from analysis.tables.interval_columns import interval_columns, with_ends
from probes.config.measurement import significance_level

VERSION = "trace_shares/4"
NO_FLOOR, NOT_DRAWN = "no control word was drawn", "not drawn, or without an outcome"
SHARE_COLUMNS = (
    *("outcome", *WHAT, "donor"),
    *(*with_ends("sufficiency"), *with_ends("sufficiency_joint")[1:], *with_ends("effect"), "reason"),
    *(*with_ends("necessity"), *with_ends("necessity_joint")[1:], *with_ends("necessity_effect")),
    *(*with_ends("direct_effect"), "necessity_reason"),
    *(*with_ends("floor"), "floor_donor", "floor_reason", *with_ends("beyond")),
    *("p_value", "p_adjusted", "p_necessity", "p_necessity_adjusted", "n_prompts", "n_effective", "version"),
)
TOTAL_COLUMNS = (
    *("outcome", "donor", "control", *with_ends("total"), "p_value", "told_from_0"),
    *("n_prompts", "reason", "version"),
)


def total_table(traced: Sequence[Effects], sampling: dict[str, Any]) -> pd.DataFrame:
    """Table ``trace_total``: one row per outcome and donor, a control word's too, with `TOTAL_COLUMNS`.

    Interval, ``p_value`` and ``told_from_0`` are one inference (`analysis.stats.ratio_sets.mean_p_values`).
    """
    tables = []
    for one in traced:
        donors = [*one.donors, *one.controls]
        totals = np.column_stack([one.total(donor) for donor in donors])
        found = bootstrap_interval(totals, **sampling)
        drawing = {name: sampling[name] for name in ("resamples", "seed")}
        table = pd.DataFrame({"donor": donors, "control": [donor in one.controls for donor in donors]})
        table = table.assign(
            outcome=one.outcome,
            **interval_columns("total", found.mean, found.low, found.high),
            p_value=mean_p_values(totals, **drawing),
            told_from_0=no_total(totals, **sampling) == "",
            n_prompts=found.n,
            reason=found.reason,
            version=f"{VERSION}, {one.version}",
        )
        tables.append(table[list(TOTAL_COLUMNS)])
    return pd.concat(tables, ignore_index=True)


def share_table(traced: Sequence[Effects], kinds: Iterable[str], sampling: dict[str, Any]) -> pd.DataFrame:
    """Return the shares of patches of some kinds: one row per outcome, donor and patch, with `SHARE_COLUMNS`.

    The patches of an outcome and donor are one family. Shares have an interval of their own and one of the whole family
    (``…_joint_low``, ``…_joint_high``), which holds for the largest of them, too. ``effect`` and ``necessity_effect``
    are the numerators over prompts in units of the outcome, with intervals of the family: they hold without a total
    effect. ``beyond`` is the share beyond the floor with the interval of the family; ``p_value`` and ``p_adjusted`` say
    that the place does more than the floor and more than nothing, so that below the level the intervals of ``beyond``,
    of sufficiency and of ``effect`` all leave out 0; ``p_necessity`` are those of necessity. Without a total effect
    they are of the effects alone. ``n_effective`` prompts carry the variance of sufficiency: where they are few its
    interval reaches as far as the words move any prompt (`analysis.stats.rare_changes`).
    """
    kinds = list(kinds)
    tables = [
        _shares_of(one, places, donor, sampling)
        for one in traced
        for donor in one.donors
        if (places := one.places(kinds))
    ]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(SHARE_COLUMNS))


def _shares_of(one: Effects, places: Sequence[Place], donor: str, sampling: dict[str, Any]) -> pd.DataFrame:
    total = one.total(donor)
    enough = np.column_stack([one.sufficiency(place, donor) for place in places])
    needed = np.column_stack([one.necessity(place, donor) for place in places])
    floors = np.stack([one.floors(place) for place in places], axis=-1)  # (n_controls, n_prompts, n_patches)
    floor, whose = floor_of(floors, one.controls)
    sufficiency, necessity, by_chance = (shares(part, total, **sampling) for part in (enough, needed, floor))
    direct = necessity.direct()
    margin = beyond_floor(enough, total, floor, **sampling)
    moved, moved_back = (mean_effects(part, total, sampling) for part in (enough, needed))
    p_value, p_adjusted = p_values(sufficiency, moved)
    p_necessity, p_necessity_adjusted = p_values(necessity, moved_back)
    # more than the floor only where it is more than nothing, too: whose effect may be 0 may be the smaller one
    nothing = p_adjusted >= significance_level(sampling["level"])
    low, high = (
        np.where(nothing, smaller(end, 0.0), end)
        for smaller, end in ((np.minimum, margin.joint_low), (np.maximum, margin.joint_high))
    )
    return pd.DataFrame(dict(zip(WHAT, zip(*places)))).assign(
        outcome=one.outcome,
        donor=donor,
        **_share_columns("sufficiency", sufficiency),
        **interval_columns("effect", moved.ratio, moved.joint_low, moved.joint_high),
        reason=_undrawn(sufficiency.reason, enough, NOT_DRAWN),
        **_share_columns("necessity", necessity),
        **interval_columns("necessity_effect", moved_back.ratio, moved_back.joint_low, moved_back.joint_high),
        **interval_columns("direct_effect", direct.share, direct.low, direct.high),
        necessity_reason=_undrawn(necessity.reason, needed, NOT_DRAWN),
        **interval_columns("floor", by_chance.share, by_chance.low, by_chance.high),
        floor_donor=whose,
        floor_reason=_undrawn(by_chance.reason, floor, NO_FLOOR),
        **interval_columns("beyond", margin.ratio, low, high),
        p_value=np.maximum(margin.p_value, p_value),
        p_adjusted=np.maximum(margin.p_adjusted, p_adjusted),
        p_necessity=p_necessity,
        p_necessity_adjusted=p_necessity_adjusted,
        n_prompts=np.maximum(sufficiency.n, necessity.n),
        n_effective=sufficiency.n_effective,
        version=f"{VERSION}, {one.version}",
    )[list(SHARE_COLUMNS)]


def _share_columns(name: str, found: Shares) -> dict[str, Any]:
    joint = interval_columns(f"{name}_joint", None, found.joint_low, found.joint_high)
    del joint[f"{name}_joint"]
    return interval_columns(name, found.share, found.low, found.high) | joint


def p_values(found: Shares, itself: RatioSets) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The p-values, alone and adjusted, that share and effect are 0: the larger, since both have intervals."""
    return np.fmax(found.p_value, itself.p_value), np.fmax(found.p_adjusted, itself.p_adjusted)


def mean_effects(
    effects: NDArray[np.float64], total: NDArray[np.float64], sampling: dict[str, Any]
) -> RatioSets:
    """Means over prompts of effects, ``(n_prompts, n_patches)``, with their sets and p-values.

    Where few prompts carry one it is taken to move no prompt farther than the words move any.
    """
    effects = np.where(np.isnan(total)[:, None], np.nan, effects)
    reach = np.full(effects.shape[1], np.nanmax(np.abs(total), initial=0.0))
    return mean_sets(effects, reach=reach, **sampling)


def floor_of(
    floors: NDArray[np.float64], controls: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.object_]]:
    """The effects of the control that moves each patch's outcome farthest, and its name.

    From `floors`, shape (n_controls, n_prompts, n_patches); NaN, and an empty name, where no control was drawn.
    """
    n_patches = floors.shape[2]
    if not len(controls):
        return np.full(floors.shape[1:], np.nan), np.full(n_patches, "", object)
    chosen, whose = largest_floor(floors)
    names = np.array([*controls, None], object)[:-1][whose]
    return chosen, np.where(np.isnan(chosen).all(axis=0), "", names)


def _undrawn(reason: NDArray[np.object_], values: NDArray[np.float64], why: str) -> NDArray[np.object_]:
    """Reasons, where nothing at all was drawn that."""
    return np.where(np.isnan(matrix(values)).all(axis=0), why, reason)
