"""What two models draw, side by side, by prompt: lean, obedience, named things, frequencies, diversity.

Both sides are the images that have the same prompt and noise; what one side alone drew is left out. The unit is the
prompt, seeds are averaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.mitigation import diversity
from analysis.methods.mitigation.readings import Readings
from analysis.stats.effects import effect_sizes
from analysis.stats.equivalence import equivalence_test
from analysis.stats.ratio_sets import mean_sets
from analysis.stats.shares_between import shares_between
from analysis.stats.sign_flips import sign_flip_test
from probes.toyworld.scene import parse
from probes.toyworld.truth import planted_for
from probes.toyworld.verdict import left_out
from probes.toyworld.world import World

LEAN, VERDICT, NAMED, SCENES, PIXELS, THING = "lean", "verdict", "named", "scenes", "pixels", "thing"
CORRECTED = "lean_corrected"
SHARES = (LEAN, NAMED, THING)  # from 0 to 1, so that no prompt can differ by more than 1
TESTED = (NAMED, SCENES, PIXELS)  # asked whether they change by less than the margin
_CHANGES = "changes"  # of a row: the difference of each prompt
KEY = ["prompt", "indicator", "noise_seed"]
COLUMNS = (
    *("kind", "indicator", "what", "before", "before_low", "before_high", "after", "after_low", "after_high"),
    *("difference", "difference_low", "difference_high", "joint_low", "joint_high", "p_value", "p_adjusted"),
    *("target", "margin"),
    *("equivalence_p", "equivalent", "smallest", "planted", "n_images", "n_prompts", "reason"),
)


@dataclass(frozen=True)
class Sampling:
    """Options of intervals and tests over prompts."""

    level: float = 0.95
    resamples: int = 2000
    permutations: int = 10000
    seed: int = 0
    margin: float = 0.05

    @property
    def interval(self) -> dict:
        """Of an interval."""
        return {"level": self.level, "resamples": self.resamples, "seed": self.seed}


def quantities(
    before: Readings,
    after: Readings,
    world: World | None,
    sampling: Sampling,
    ends: tuple[str, str] | None = None,
) -> pd.DataFrame:
    """One row per quantity, with `COLUMNS`.

    ``lean``: share of the images whose verdict says component b. A verdict errs, and the lean of a word that means both
    components alike need not read ½: ``lean_corrected`` says where it stands between the readings of the two `ends` on
    the same side (`analysis.stats.shares_between.shares_between`), 0 as the first and 1 as the second. ``verdict``:
    its mean. ``named``: share of the named things that are seen. ``scenes``, ``pixels``: mean distance of images of
    different prompts (`analysis.methods.mitigation.diversity`). ``thing``: share of the images with a thing, over
    prompts that do not name it, beside its planted frequency. ``difference`` is after less before. ``equivalence_p``
    tests that a corrected lean after the edit is within ``margin`` of ``target`` (½), and of the others that the
    difference is within it of 0. ``joint_low`` and ``joint_high`` are the ends of intervals that hold for the
    differences of all rows at once (`analysis.stats.ratio_sets`).

    Parameters
    ----------
    before, after : Readings
        Of images with the same prompt and noise, see `common`.
    ends : (str, str), optional
        Indicators whose words mean component a and component b alone.
    """
    rows = []
    indicators = list(dict.fromkeys(before.images["indicator"]))
    for indicator in indicators:
        sides = [_of(side, indicator) for side in (before, after)]
        for kind in (LEAN, CORRECTED, VERDICT, NAMED, SCENES, PIXELS):
            if world is None and kind != PIXELS:
                continue
            if kind != CORRECTED:
                rows.append(_row(kind, indicator, sides, sampling))
            elif ends and indicator not in ends:
                rows.append(_corrected(indicator, ends, (before, after), sampling))
    changes = [row.pop(_CHANGES) for row in rows]
    table = pd.DataFrame(rows)
    if world is not None:
        for indicator in indicators:
            things, of_things = _things(indicator, before, after, world, sampling)
            table = pd.concat([table, things], ignore_index=True)
            changes += [of_things[name] for name in of_things]
    return table.assign(**_joint(changes, sampling)).reindex(columns=list(COLUMNS))


def _joint(changes: Sequence[pd.Series], sampling: Sampling) -> dict[str, NDArray[np.float64]]:
    """Intervals of mean differences that hold for all of them at once, from each by the reference's prompts."""
    values = pd.concat([one.groupby(level=0).mean() for one in changes], axis=1).to_numpy(float)
    found = mean_sets(values, **sampling.interval)
    return {"joint_low": found.joint_low, "joint_high": found.joint_high}


def _references(side: Readings) -> pd.Series:
    """The prompt with the reference's word, by prompt."""
    return side.images.drop_duplicates("prompt").set_index("prompt")["reference"]


def _of(side: Readings, indicator: str) -> Readings:
    return _at(side, np.flatnonzero((side.images["indicator"] == indicator).to_numpy()))


def common(one: Readings, other: Readings) -> tuple[Readings, Readings]:
    """Return the images of both sides that have the same prompt and noise, in the same order, each once."""
    numbered = [
        side.images[KEY].assign(**{name: np.arange(len(side.images))}).drop_duplicates(KEY)
        for side, name in ((one, "first"), (other, "second"))
    ]
    both = numbered[0].merge(numbered[1], on=KEY)
    return tuple(_at(side, both[name].to_numpy()) for side, name in ((one, "first"), (other, "second")))


def _at(side: Readings, rows: NDArray) -> Readings:
    scenes = side.scenes[rows] if len(side.scenes) else side.scenes
    return Readings(side.images.iloc[rows].reset_index(drop=True), scenes, side.pixels[rows], 0)


def _by_prompt(side: Readings, kind: str) -> pd.Series:
    """The value of each prompt, its seeds averaged."""
    if kind in (SCENES, PIXELS):
        return _spread(side, kind)
    values = {LEAN: lambda t: (t["verdict"] > 0).astype(float), VERDICT: lambda t: t["verdict"]}.get(
        kind, lambda t: t["named"]
    )(side.images)
    return values.groupby(side.images["prompt"]).mean()


def _spread(side: Readings, kind: str) -> pd.Series:
    """Pseudo-values of the mean distance between prompts, each seed apart, then averaged over seeds."""
    made = []
    for _, rows in side.images.groupby("seed"):
        places = rows.index.to_numpy()
        if kind == SCENES:
            distances = diversity.scene_distances(side.scenes[places])
        else:
            distances = diversity.pixel_distances(side.pixels[places])
        made.append(pd.Series(diversity.pseudo_values(distances), index=rows["prompt"]))
    return pd.concat(made).groupby(level=0).mean() if made else pd.Series(dtype=float)


def _row(kind: str, indicator: str, sides: Sequence[Readings], sampling: Sampling) -> dict:
    values = [_by_prompt(side, kind) for side in sides]
    row = {"kind": kind, "indicator": indicator, "what": "", "n_images": len(sides[0].images)}
    for name, value in zip(("before", "after"), values):
        row |= _mean(name, value.to_numpy(float), sampling, (0.0, 1.0) if kind in SHARES else None)
    apart = values[1] - values[0].reindex(values[1].index)
    difference = apart.to_numpy(float)
    row |= _changed(difference, 1.0 if kind in SHARES else None, sampling)
    row[_CHANGES] = apart.rename(_references(sides[0]))
    if kind == LEAN:
        return row | {"margin": sampling.margin}
    if kind not in TESTED:
        return row
    return row | _equivalent(difference, 0.0, 1.0 if kind in SHARES else None, sampling)


def _corrected(indicator: str, ends: tuple[str, str], sides: Sequence[Readings], sampling: Sampling) -> dict:
    """The row of a lean between those of two words."""
    found, images, references = [], 0, pd.Index([])
    for side in sides:
        is_b = (side.images["verdict"] > 0).astype(float)
        table = is_b.groupby([side.images["reference"], side.images["indicator"]]).mean().unstack()
        references = table.index
        found.append(shares_between(table[indicator], table[ends[0]], table[ends[1]], level=sampling.level))
        images = int((side.images["indicator"] == indicator).sum())
    row = {"kind": CORRECTED, "indicator": indicator, "what": "", "n_images": images}
    for name, one in zip(("before", "after"), found):
        row |= _mean(name, one.values, sampling, (0.0, 1.0))
    first, second = found
    reach = max(first.reach, second.reach)
    row |= _changed(second.values - first.values, 2 * reach, sampling)
    row[_CHANGES] = pd.Series(second.values - first.values, index=references)
    row |= _equivalent(second.values - 0.5, 0.5, abs(second.share - 0.5) + second.reach, sampling)
    reason = second.reason or first.reason
    return row | ({"reason": reason} if reason else {})


def _mean(
    name: str, values: NDArray[np.float64], sampling: Sampling, within: tuple[float, float] | None = None
) -> dict:
    """A side's mean with its interval, cut at the ends of what it can be."""
    size = effect_sizes(values[:, None], **sampling.interval)
    low, high = size.mean_low[0], size.mean_high[0]
    if within is not None:
        low, high = np.maximum(low, within[0]), np.minimum(high, within[1])
    return {name: size.mean[0], f"{name}_low": low, f"{name}_high": high}


def _changed(difference: NDArray[np.float64], reach: float | None, sampling: Sampling) -> dict:
    """What differs between the sides, over prompts, with its test."""
    column = difference[:, None]
    size = effect_sizes(column, reach=None if reach is None else [reach], **sampling.interval)
    test = sign_flip_test(column, permutations=sampling.permutations, seed=sampling.seed)
    return {
        "difference": size.mean[0],
        "difference_low": size.mean_low[0],
        "difference_high": size.mean_high[0],
        "p_value": test.p_value[0],
        "n_prompts": int(size.n[0]),
        "reason": size.mean_reason[0],
    }


def _equivalent(values: NDArray[np.float64], target: float, reach: float | None, sampling: Sampling) -> dict:
    """The test that a mean lies within the margin of 0; `target` is what was taken off."""
    options = {"resamples": sampling.resamples, "seed": sampling.seed, "alpha": 1 - sampling.level}
    limit = None if reach is None else [reach]
    equal = equivalence_test(values[:, None], sampling.margin, method="envelope", reach=limit, **options)
    return {
        "target": target,
        "margin": sampling.margin,
        "equivalence_p": equal.p_value[0],
        "equivalent": bool(equal.p_value[0] < 1 - sampling.level),
        "smallest": equal.smallest[0],
    }


def _things(
    indicator: str, before: Readings, after: Readings, world: World, sampling: Sampling
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Frequencies of what is not named, and their differences by the reference's prompts.

    p-values are adjusted over the things of a word (max-T).
    """
    sides = [_of(side, indicator) for side in (before, after)]
    both = [_things_by_prompt(side.images, world) for side in sides]
    names = [name for name in both[0] if both[0][name].notna().any()]
    difference = (both[1][names] - both[0][names]).to_numpy(float)
    size = effect_sizes(difference, reach=np.ones(len(names)), **sampling.interval)
    test = sign_flip_test(difference, permutations=sampling.permutations, seed=sampling.seed)
    columns = {"kind": THING, "indicator": indicator, "what": names, "n_images": len(sides[0].images)}
    for side, table in zip(("before", "after"), both):
        values = effect_sizes(table[names].to_numpy(float), **sampling.interval)
        low, high = np.maximum(values.mean_low, 0.0), np.minimum(values.mean_high, 1.0)
        columns |= {side: values.mean, f"{side}_low": low, f"{side}_high": high}
    expected = _planted(both[0].index, world)[names].where(both[0][names].notna())
    changes = pd.DataFrame(difference, columns=names, index=both[1].index).rename(_references(sides[1]))
    table = pd.DataFrame(
        columns
        | {
            "difference": size.mean,
            "difference_low": size.mean_low,
            "difference_high": size.mean_high,
            "p_value": test.p_value,
            "p_adjusted": test.p_adjusted,
            "planted": expected.mean().to_numpy(),
            "n_prompts": size.n,
            "reason": size.mean_reason,
        }
    )
    return table, changes


def slot_things(world: World) -> list[str]:
    """Everything that a world draws unasked, in the order of its slots."""
    return [
        name
        for slot, choices in world.data["slots"].items()
        if slot != "side"
        for name in choices["a"]
        if name != "none"
    ]


def _things_by_prompt(images: pd.DataFrame, world: World) -> pd.DataFrame:
    """Share of a prompt's images with each thing; NaN where the prompt sets its slot."""
    names = slot_things(world)
    table = images[names].astype(float).groupby(images["prompt"]).mean()
    return table.where(~_set(table.index, world)[names])


def _set(prompts: pd.Index, world: World) -> pd.DataFrame:
    """Return whether a prompt sets the slot that a thing is of."""
    slot = {
        name: key for key, choices in world.data["slots"].items() for name in choices["a"] if name != "none"
    }
    rows = [{name: slot[name] in left_out(parse(prompt, world)) for name in slot} for prompt in prompts]
    return pd.DataFrame(rows, index=prompts)


def _planted(prompts: pd.Index, world: World) -> pd.DataFrame:
    return pd.DataFrame([planted_for(parse(prompt, world), world) for prompt in prompts], index=prompts)
