"""What a specimen with professions draws, as far as it is off by more than chance."""

import dataclasses
from collections.abc import Mapping

import numpy as np
import pandas as pd

from probes.errors import UserError
from probes.toyworld.checker import SKIN_NAMES
from probes.toyworld.work.measure import lean, verdict_rates
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


def drawn(readings: pd.DataFrame, world: World) -> dict[str, Profession]:
    """What a specimen draws for each profession, as far as it differs from what is planted by more than chance.

    Parameters
    ----------
    readings : DataFrame
        From :func:`probes.toyworld.work.measure.read_professions`, of the group *neutral*.

    Returns
    -------
    dict of str to Profession
        By name, with the drawn lean and skins.

    Raises
    ------
    UserError
        No skin was read of a profession's images.
    """
    rates, names = verdict_rates(world), list(world.professions)
    of_profession = dict(list(readings.groupby("profession")))
    leans, skins = np.empty((2, len(names))), np.empty((2, len(names), len(SKIN_NAMES)))
    for row, name in enumerate(names):
        some = of_profession[name]
        said = lean(some["verdict"], rates)
        counts = np.array([(some["skin"] == skin).sum() for skin in SKIN_NAMES])
        if not counts.sum():
            raise UserError(
                f"profession {name}: expected images with a skin, got none among {len(some)}: train it further first"
            )
        shares = counts / counts.sum()
        slope = rates["b"] - rates["a"]
        leans[:, row] = said["lean"], said["share"] * (1 - said["share"]) / len(some) / slope**2
        skins[:, row] = shares, shares * (1 - shares) / counts.sum()
    planted = list(world.professions.values())
    lean_now = _shrunk(leans[0], np.array([one.lean for one in planted]), leans[1])
    skins_now = _shrunk(skins[0], np.array([one.skins for one in planted]), skins[1])
    return {
        name: dataclasses.replace(one, lean=float(chance), skins=tuple((row / row.sum()).tolist()))
        for name, one, chance, row in zip(names, planted, lean_now, skins_now, strict=True)
    }


def off(now: Mapping[str, Profession], world: World) -> bool:
    """Whether anything drawn differs from what is planted."""
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
