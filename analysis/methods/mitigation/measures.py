"""What two models draw, side by side, by prompt: lean, obedience, named things, frequencies, diversity.

An image belongs to both sides where prompt and noise are the same; differences are taken over those, and each side's
value over all of its images. The unit is the prompt, seeds are averaged.
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
from analysis.stats.sign_flips import sign_flip_test
from probes.toyworld.scene import parse
from probes.toyworld.truth import planted_for
from probes.toyworld.verdict import left_out
from probes.toyworld.world import World

LEAN, VERDICT, NAMED, SCENES, PIXELS, THING = "lean", "verdict", "named", "scenes", "pixels", "thing"
SHARES = (LEAN, NAMED, THING)  # from 0 to 1, so that no prompt can differ by more than 1
TESTED = (LEAN, NAMED, SCENES, PIXELS)  # asked for equivalence within the margin
KEY = ["prompt", "indicator", "noise_seed"]
COLUMNS = (
    *("kind", "indicator", "what", "before", "before_low", "before_high", "after", "after_low", "after_high"),
    *("difference", "difference_low", "difference_high", "p_value", "p_adjusted", "target", "margin"),
    *("equivalence_p", "equivalent", "smallest", "planted", "n_before", "n_after", "n_prompts", "reason"),
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


def quantities(before: Readings, after: Readings, world: World | None, sampling: Sampling) -> pd.DataFrame:
    """One row per quantity, with `COLUMNS`.

    ``lean``: share of the images whose verdict says component b (½: no lean). ``verdict``: its mean. ``named``: share
    of the named things that are seen. ``scenes``, ``pixels``: mean distance of images of different prompts
    (`analysis.methods.mitigation.diversity`). ``thing``: share of the images with a thing, over prompts that do not
    name it, beside its planted frequency. ``difference`` is after less before. ``equivalence_p`` tests that a lean
    after the edit is within ``margin`` of ``target`` (½), and of the others that the difference is within it of 0.
    """
    rows = []
    indicators = list(dict.fromkeys(before.images["indicator"]))
    for indicator in indicators:
        sides = [_of(side, indicator) for side in (before, after)]
        common = _common(*sides)
        for kind in (LEAN, VERDICT, NAMED, SCENES, PIXELS):
            if world is None and kind != PIXELS:
                continue
            rows.append(_row(kind, indicator, "", sides, common, sampling))
    table = pd.DataFrame(rows)
    if world is not None:
        things = [_things(indicator, before, after, world, sampling) for indicator in indicators]
        table = pd.concat([table, *things], ignore_index=True)
    return table.reindex(columns=list(COLUMNS))


def _of(side: Readings, indicator: str) -> Readings:
    rows = np.flatnonzero((side.images["indicator"] == indicator).to_numpy())
    scenes = side.scenes[rows] if len(side.scenes) else side.scenes
    return Readings(side.images.iloc[rows].reset_index(drop=True), scenes, side.pixels[rows], 0)


def _common(one: Readings, other: Readings) -> tuple[Readings, Readings]:
    """The images of both sides that have the same prompt and noise, in the same order."""
    numbered = [
        side.images[KEY].assign(**{name: np.arange(len(side.images))})
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


def _row(
    kind: str,
    indicator: str,
    what: str,
    sides: Sequence[Readings],
    common: Sequence[Readings],
    sampling: Sampling,
) -> dict:
    values = [_by_prompt(side, kind) for side in sides]
    paired = [_by_prompt(side, kind) for side in common]
    row = {"kind": kind, "indicator": indicator, "what": what}
    for name, value, side in zip(("before", "after"), values, sides):
        row |= _mean(name, value, sampling) | {f"n_{name}": len(side.images)}
    return row | _compared(kind, paired, values[1], sampling)


def _mean(name: str, values: pd.Series, sampling: Sampling) -> dict:
    size = effect_sizes(values.to_numpy(float)[:, None], **sampling.interval)
    return {name: size.mean[0], f"{name}_low": size.mean_low[0], f"{name}_high": size.mean_high[0]}


def _compared(kind: str, paired: Sequence[pd.Series], after: pd.Series, sampling: Sampling) -> dict:
    first, second = paired
    difference = (second - first.reindex(second.index)).to_numpy(float)[:, None]
    reach = [1.0] if kind in SHARES else None
    size = effect_sizes(difference, reach=reach, **sampling.interval)
    test = sign_flip_test(difference, permutations=sampling.permutations, seed=sampling.seed)
    row = {
        "difference": size.mean[0],
        "difference_low": size.mean_low[0],
        "difference_high": size.mean_high[0],
        "p_value": test.p_value[0],
        "n_prompts": int(size.n[0]),
        "reason": size.mean_reason[0],
    }
    if kind not in TESTED:
        return row
    target = 0.5 if kind == LEAN else 0.0
    values = after.to_numpy(float)[:, None] - 0.5 if kind == LEAN else difference
    options = {"resamples": sampling.resamples, "seed": sampling.seed, "alpha": 1 - sampling.level}
    reach = [0.5] if kind == LEAN else reach
    equal = equivalence_test(values, sampling.margin, method="envelope", reach=reach, **options)
    return row | {
        "target": target,
        "margin": sampling.margin,
        "equivalence_p": equal.p_value[0],
        "equivalent": bool(equal.p_value[0] < 1 - sampling.level),
        "smallest": equal.smallest[0],
    }


def _things(
    indicator: str, before: Readings, after: Readings, world: World, sampling: Sampling
) -> pd.DataFrame:
    """Frequencies of what is not named; p-values are adjusted over the things of a word (max-T)."""
    sides = [_of(side, indicator) for side in (before, after)]
    both = [_things_by_prompt(side.images, world) for side in _common(*sides)]
    alone = [_things_by_prompt(side.images, world) for side in sides]
    names = [name for name in both[0] if both[0][name].notna().any()]
    difference = (both[1][names] - both[0][names]).to_numpy(float)
    size = effect_sizes(difference, reach=np.ones(len(names)), **sampling.interval)
    test = sign_flip_test(difference, permutations=sampling.permutations, seed=sampling.seed)
    columns = {"kind": THING, "indicator": indicator, "what": names}
    for side, table in zip(("before", "after"), alone):
        values = effect_sizes(table[names].to_numpy(float), **sampling.interval)
        columns |= {side: values.mean, f"{side}_low": values.mean_low, f"{side}_high": values.mean_high}
        columns |= {f"n_{side}": len(sides[side == "after"].images)}
    expected = _planted(both[0].index, world)[names].where(both[0][names].notna())
    return pd.DataFrame(
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
