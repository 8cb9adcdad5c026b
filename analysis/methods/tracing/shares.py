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

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from analysis.methods.tracing.effects import JOIN, NECESSITY, SUFFICIENCY, WHAT, Effects
from analysis.stats.shares import Shares, beyond_floor, largest_floor, mean_effects, shares
from probes.config.measurement import significance_level
from probes.stages.trace.variants import KEYS_AND_VALUES, POOLED

VERSION = "trace_shares/5"
FLOOR, BEYOND, INTERACTION = "floor", "beyond", "interaction"
NUMBERS = ("effect", "effect_low", "effect_high", "share", "low", "high", "p_adjusted")
SHARE_COLUMNS = ("outcome", *WHAT, "donor", "estimand", "control", *NUMBERS, "n_prompts", "reason", "version")
TOTAL_COLUMNS = ("outcome", "donor", "control", "total", "low", "high", "p_value", "n_prompts", "version")


def total_table(traced: Sequence[Effects], sampling: dict[str, Any]) -> pd.DataFrame:
    """Table ``trace_total``: one row per outcome and donor, a control word's too."""
    rows = []
    for one in traced:
        for donor in one.totals:
            result = mean_effects(one.totals[[donor]], **sampling)
            numbers = (result.effect, result.effect_low, result.effect_high, result.p_adjusted, result.n)
            about = one.outcome, donor, donor in one.controls
            rows.append((*about, *(number[0] for number in numbers), f"{VERSION}, {one.version}"))
    return pd.DataFrame(rows, columns=list(TOTAL_COLUMNS))


def share_table(
    traced: Sequence[Effects], kinds: Sequence[str], sampling: dict[str, Any]
) -> pd.DataFrame | None:
    """Table of the shares of patches of some kinds: one row per outcome, donor, estimand and patch.

    The patches of an outcome, donor and estimand are one family, for all of which intervals and ``p_adjusted`` hold.
    What was not generated has no row; None where nothing was.
    """
    tables = []
    for one in traced:
        places = one.places[one.places["kind"].isin(kinds)]
        for donor in one.donors if len(places) else ():
            tables += _patches(one, places, donor, sampling)
            tables += _interaction(one, places, donor, sampling)
    return pd.concat(tables, ignore_index=True)[list(SHARE_COLUMNS)] if tables else None


def _patches(
    one: Effects, places: pd.DataFrame, donor: str, sampling: dict[str, Any]
) -> Iterator[pd.DataFrame]:
    total = one.totals[donor]
    enough, needed = (one.of(estimand, donor, places.index) for estimand in (SUFFICIENCY, NECESSITY))
    sufficiency = shares(enough, total, **sampling)
    yield _rows(one, places, donor, SUFFICIENCY, sufficiency)
    yield _rows(one, places, donor, NECESSITY, shares(needed, total, **sampling))
    if one.controls:
        floor, chosen = largest_floor([one.of(SUFFICIENCY, word, places.index) for word in one.controls])
        controls = np.array(one.controls, object)[chosen]
        yield _rows(one, places, donor, FLOOR, shares(floor, total, **sampling), controls)
        beyond = beyond_floor(enough, total, floor, **sampling)
        beyond = _more_than_nothing(beyond, sufficiency, sampling["level"])
        yield _rows(one, places, donor, BEYOND, beyond, controls)


def _more_than_nothing(beyond: Shares, sufficiency: Shares, level: float) -> Shares:
    """Beyond the floor only where it is more than nothing, too: whose effect may be 0 may be the smaller one."""
    nothing = sufficiency.p_adjusted >= significance_level(level)
    ends = {
        name: np.where(nothing, smaller(getattr(beyond, name), 0.0), getattr(beyond, name))
        for names, smaller in ((("effect_low", "low"), np.minimum), (("effect_high", "high"), np.maximum))
        for name in names
    }
    return replace(beyond, p_adjusted=np.fmax(beyond.p_adjusted, sufficiency.p_adjusted), **ends)


def _interaction(
    one: Effects, places: pd.DataFrame, donor: str, sampling: dict[str, Any]
) -> Iterator[pd.DataFrame]:
    """Rows of all ways of the text into the image; none where these were not all patched alone."""
    complete, sites = (places[places["kind"] == kind] for kind in ("complete", "site"))
    names = complete["site"].str.split(JOIN).explode()
    # patched alone as the patch of all ways holds it
    alone = (sites["part"] == KEYS_AND_VALUES) | (sites["site"] == POOLED)
    ways = sites[sites["site"].isin(names) & alone]
    if not 1 < len(ways) == len(names):
        return
    differences = [
        one.of(estimand, donor, complete.index)[:, 0] - one.of(estimand, donor, ways.index).sum(axis=1)
        for estimand in (SUFFICIENCY, NECESSITY)
    ]
    result = shares(np.column_stack(differences), one.totals[donor], **sampling)
    both = pd.concat([complete, complete]).assign(kind=INTERACTION)
    yield _rows(one, both, donor, [SUFFICIENCY, NECESSITY], result)


def _rows(
    one: Effects,
    places: pd.DataFrame,
    donor: str,
    estimand: str | Sequence[str],
    result: Shares,
    control: str | Sequence[str] = "",
) -> pd.DataFrame:
    numbers = {name: getattr(result, name) for name in (*NUMBERS, "reason")}
    about = {"outcome": one.outcome, "donor": donor, "estimand": estimand, "control": control}
    version = f"{VERSION}, {one.version}"
    return places.assign(**about, **numbers, n_prompts=result.n, version=version)[result.n > 0]
