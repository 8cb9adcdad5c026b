"""Table ``trace_channels``: how what a transformer is given of the text shares the total effect out.

Its channels are the pooled text and the tokens of each text encoder. Every subset of them was the donor's, the rest the
recipient's own, so Shapley values and interactions are exact; no attention has anything to do with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.tracing.effects import JOIN, WHAT, Effects
from analysis.methods.tracing.shares import PAIR, mean_effects, p_values
from analysis.stats.shapley import exact_interactions, exact_shapley
from analysis.stats.shares import shares
from analysis.tables.interval_columns import interval_columns, with_ends

VERSION = "trace_channels/1"
CHANNEL = "channel"
CHANNEL_COLUMNS = (
    *("outcome", "kind", "site", "donor", *with_ends("share"), *with_ends("share_joint")[1:]),
    *(*with_ends("effect"), "p_value", "p_adjusted", "n_prompts", "reason", "version"),
)


def channel_table(traced: Sequence[Effects], sampling: dict[str, Any]) -> pd.DataFrame:
    """Return ``trace_channels``, with `CHANNEL_COLUMNS`: a row per outcome, donor and channel or pair of channels.

    Of a channel it is the Shapley value, of a pair the Shapley interaction index, as shares of the total effect and as
    effects in units of the outcome. The channels of an outcome and donor are one family, and their pairs another;
    p-values without a total effect are those of the effects.

    Parameters
    ----------
    traced : sequence of Effects
    sampling : dict
        ``level``, ``resamples`` and ``seed``.
    """
    tables = [
        table
        for one in traced
        if one.places(["channels"])
        for donor in one.donors
        for table in _of(one, donor, sampling)
    ]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(CHANNEL_COLUMNS))


def _of(one: Effects, donor: str, sampling: dict[str, Any]) -> list[pd.DataFrame]:
    places = one.places(["channels"])
    sets = [place[WHAT.index("site")].split(JOIN) for place in places]
    channels = max(sets, key=len)
    worth = {frozenset(some): one.sufficiency(place, donor) for some, place in zip(sets, places)}
    pairs = exact_interactions(worth, channels)
    of_channels = _rows(one, donor, CHANNEL, channels, exact_shapley(worth, channels).values, sampling)
    names = [JOIN.join(pair) for pair in pairs]
    return [of_channels, _rows(one, donor, PAIR, names, np.column_stack([*pairs.values()]), sampling)]


def _rows(
    one: Effects,
    donor: str,
    kind: str,
    sites: Sequence[str],
    effects: NDArray[np.float64],
    sampling: dict[str, Any],
) -> pd.DataFrame:
    total = one.total(donor)
    found, itself = shares(effects, total, **sampling), mean_effects(effects, total, sampling)
    joint = interval_columns("share_joint", None, found.joint_low, found.joint_high)
    del joint["share_joint"]
    p_value, p_adjusted = p_values(found, itself)
    return pd.DataFrame({"site": list(sites)}).assign(
        outcome=one.outcome,
        kind=kind,
        donor=donor,
        **interval_columns("share", found.share, found.low, found.high),
        **joint,
        **interval_columns("effect", itself.ratio, itself.joint_low, itself.joint_high),
        p_value=p_value,
        p_adjusted=p_adjusted,
        n_prompts=found.n,
        reason=found.reason,
        version=f"{VERSION}, {one.version}",
    )[list(CHANNEL_COLUMNS)]
