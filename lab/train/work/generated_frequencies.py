"""Generated frequencies of a model with professions, where they are off by more than chance."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from lab.train.work.measure import verdict_rates
from probes.errors import UserError
from probes.toyworld.checker import SKIN_NAMES
from probes.toyworld.world import Profession, World

LEAST = 0.01  # a lean or a skin is taken for no nearer to 0 and 1


def beyond_chance(away: np.ndarray, variance: np.ndarray) -> float:
    """Share of deviations that is more than chance of the images drawn (James and Stein 1961, its positive part).

    Parameters
    ----------
    away, variance : numpy.ndarray
        Deviations, and the variance that each has by chance.

    Examples
    --------
    >>> beyond_chance(np.array([0.1, -0.1]), np.array([0.0025, 0.0025]))
    0.75
    """
    total = float(np.square(away).sum())
    return max(0.0, 1 - float(variance.sum()) / total) if total else 0.0


def generated_frequencies(
    readings: pd.DataFrame, world: World, before: pd.DataFrame | None = None
) -> dict[str, Profession]:
    """Return generated frequencies of each profession, where they differ from the planted ones by more than chance.

    Parameters
    ----------
    readings : DataFrame
        From :func:`lab.train.work.measure.read_professions`, of the group *neutral*.
    before : DataFrame, optional
        The same of weights that hardly differ. What they drew from all seeds is then moved by how the images of shared
        seeds differ, which few images tell well (common random numbers).

    Returns
    -------
    dict of str to Profession
        By name, with the drawn lean and skins.

    Raises
    ------
    UserError
        No skin was read of a profession's images, or `before` shares no seeds with them.
    """
    rates, names = verdict_rates(world), list(world.professions)
    slope = rates["b"] - rates["a"]
    now, then = (
        {} if table is None else dict(list(table.groupby("profession"))) for table in (readings, before)
    )
    leans, skins = np.empty((2, len(names))), np.empty((2, len(names), len(SKIN_NAMES)))
    for row, name in enumerate(names):
        tables = [now[name]] if before is None else [now[name], then.get(name, readings.iloc[:0])]
        share, variance = _shares(name, [_says_b(table) for table in tables])
        leans[:, row] = np.clip((share[0] - rates["a"]) / slope, 0, 1), variance[0] / slope**2
        skins[:, row] = _shares(name, [_in_skins(table) for table in tables])
    planted = list(world.professions.values())
    lean_now = _shrunk(leans[0], np.array([one.lean for one in planted]), leans[1])
    skins_now = _shrunk(skins[0], np.array([one.skins for one in planted]), skins[1])
    return {
        name: dataclasses.replace(one, lean=float(chance), skins=tuple((row / row.sum()).tolist()))
        for name, one, chance, row in zip(names, planted, lean_now, skins_now, strict=True)
    }


def further(now: Mapping[str, Profession], world: World, times: float) -> dict[str, Profession]:
    """Return generated frequencies moved away from the planted ones, for a model that learns a part of a lesson.

    Examples
    --------
    >>> from probes.toyworld.world import load_world
    >>> world = load_world("toyworld-work")
    >>> one = world.professions["baker"]
    >>> now = {"baker": dataclasses.replace(one, lean=one.lean + 0.02)}
    >>> round(further(now, world, 3)["baker"].lean - one.lean, 6)
    0.06
    """
    out = {}
    for name, found in now.items():
        one = world.professions[name]
        chance, row = (
            (np.asarray(planted) + times * (np.asarray(read) - planted)).clip(LEAST, 1 - LEAST)
            for read, planted in ((found.lean, one.lean), (found.skins, one.skins))
        )
        out[name] = dataclasses.replace(one, lean=float(chance), skins=tuple((row / row.sum()).tolist()))
    return out


def _says_b(readings: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame((readings["verdict"].to_numpy(float) > 0)[:, None], readings["seed"]).astype(float)


def _in_skins(readings: pd.DataFrame) -> pd.DataFrame:
    """1 in the column of the skin that was read, else 0, of the images of which one was."""
    read = readings["skin"].to_numpy()[:, None] == np.array(SKIN_NAMES)
    return pd.DataFrame(read, readings["seed"]).loc[read.any(axis=1)].astype(float)


def _shares(name: str, tables: Sequence[pd.DataFrame]) -> tuple[np.ndarray, np.ndarray]:
    """Shares of a profession's images and their variances, ``(columns,)``; of the last table, moved by the first."""
    if not all(map(len, tables)):
        raise UserError(
            f"profession {name}: expected images with a skin, got none among those read: train it further first"
        )
    last = tables[-1]
    shares = last.mean().to_numpy()
    variance = shares * (1 - shares) / len(last)
    if len(tables) > 1:
        away = (tables[0] - last).dropna()
        if len(away) < 2:
            raise UserError(
                f"profession {name}: expected seeds that the readings before share, got {len(away)}: read the same ones"
            )
        shares, variance = shares + away.mean().to_numpy(), variance + away.var().to_numpy() / len(away)
    return shares, variance


def off(now: Mapping[str, Profession], world: World) -> bool:
    """Return whether anything drawn differs from what is planted."""
    return any(
        not np.allclose(
            (found.lean, *found.skins), (world.professions[name].lean, *world.professions[name].skins)
        )
        for name, found in now.items()
    )


def _shrunk(read: np.ndarray, planted: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Planted values, and of the deviations read what is beyond chance: of what professions share, and of the rest."""
    away = read - planted
    common = away.mean(0)
    shared = beyond_chance(common, variance.mean(0) / len(away)) * common
    own = beyond_chance(away - common, variance * (1 - 1 / len(away))) * (away - common)
    return (planted + shared + own).clip(LEAST, 1 - LEAST)
