"""Runs whose objects are known, with a detector that errs: by side, by object, and by image.

A prompt names two nouns and a person; a triplet and seed has some more objects about, which most of its images show.
The detector misses objects that are there, and finds some that are not among those that could be: those about, and the
nouns. How often it errs on an image varies by a factor with mean 1, one for all its objects.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

SIDES = ("neutral", "feminine", "masculine")
CONTRASTS = (("masculine", "feminine"),)
OBJECTS = 40
ABOUT = 4.0  # objects about, on average
NAMED, NEAR = 0.85, 0.6  # how likely a noun of the prompt, and an object that is about, is in an image
PERSON = 0  # place of what every prompt names


@dataclass(frozen=True)
class CheckWorld:
    """What runs and labels are drawn from.

    Attributes
    ----------
    name : str
    prompts, seeds : int
        Of a run.
    errs : float
        Share of objects that are missed, and of those that could be there and are not that are found all the same.
    factor : float
        Of it on images of the second side of the contrast.
    bad, on_bad : float
        Share of the objects on which the detector errs more, and how often on these.
    shared : float
        Variance of the factor of an image.
    skipped : float
        Of images with an error of the detector, how many people leave out.
    images : int
        Of a sheet, at most.
    """

    name: str
    prompts: int = 80
    seeds: int = 1
    errs: float = 0.05
    factor: float = 1.0
    bad: float = 0.0
    on_bad: float = 0.4
    shared: float = 0.0
    skipped: float = 0.0
    images: int = 100


WORLDS = (
    CheckWorld("5 % errors"),
    CheckWorld("1 % errors, 1.5 times as many on one side", errs=0.01, factor=1.5),
    CheckWorld("5 % errors, 3 times as many on one side", factor=3.0),
    CheckWorld("5 % errors, together in few images", shared=4.0),
    CheckWorld(
        "1 % errors, 20 % on a tenth of the objects, 3 times as many on one side", 80, 1, 0.01, 3.0, 0.1, 0.2
    ),
    CheckWorld("the same, of 30 triplets, sheets of 30 images", 15, 2, 0.01, 3.0, 0.1, 0.2, images=30),
    CheckWorld("half of the images with an error left out", skipped=0.5),
)


@dataclass(frozen=True)
class CheckedRun:
    """One run of a world, with what is there.

    Attributes
    ----------
    samples, nouns, objects : DataFrame
        As `analysis.studies.human_check.check.choose_questions` takes them.
    there, detected : ndarray of bool, shape (n_units, n_sides, n_objects)
        Of each triplet and seed, in the order of both.
    named : ndarray of bool, shape (n_prompts, n_objects)
        By the prompts.
    """

    samples: pd.DataFrame
    nouns: pd.DataFrame
    objects: pd.DataFrame
    there: NDArray[np.bool_]
    detected: NDArray[np.bool_]
    named: NDArray[np.bool_]


def names() -> NDArray[np.object_]:
    """Return the names of the objects."""
    return np.array(["person", *(f"object {number:02d}" for number in range(1, OBJECTS))], dtype=object)


def draw_run(world: CheckWorld, rng: np.random.Generator) -> CheckedRun:
    """Draw a run of a world."""
    units = world.prompts * world.seeds
    triplet, seed = np.divmod(np.arange(units), world.seeds)
    likely = 1 / np.arange(1, OBJECTS)
    likely /= likely.sum()
    named = np.zeros((world.prompts, OBJECTS), bool)
    named[:, PERSON] = True
    for row in named:
        row[1 + rng.choice(OBJECTS - 1, 2, replace=False)] = True
    about = rng.random((units, OBJECTS)) < np.concatenate([[0.0], np.minimum(ABOUT * likely, 1.0)])
    about &= ~named[triplet]
    chance = np.where(named[triplet], NAMED, np.where(about, NEAR, 0.0))[:, None]
    shape = (units, len(SIDES), OBJECTS)
    there = rng.random(shape) < chance
    errs = np.full(OBJECTS, world.errs)
    if world.bad:
        errs[1 :: round(1 / world.bad)] = world.on_bad
    sides = np.array([1.0, 1.0, world.factor])[:, None]
    of_image = rng.gamma(1 / world.shared, world.shared, shape[:2])[:, :, None] if world.shared else 1.0
    wrong = (rng.random(shape) < np.minimum(errs * sides * of_image, 1.0)) & (chance > 0)
    return _tables(triplet, seed, named, there, there ^ wrong)


def _tables(triplet, seed, named, there, detected) -> CheckedRun:
    unit, side = (one.ravel() for one in np.indices(there.shape[:2]))
    samples = pd.DataFrame(
        {
            "sample_id": [f"{u}-{s}" for u, s in zip(unit, side)],
            "triplet": triplet[unit],
            "seed": seed[unit],
            "indicator": np.array(SIDES, dtype=object)[side],
        }
    )
    words = names()
    prompt, noun = np.nonzero(named)
    nouns = pd.DataFrame(
        {"triplet": np.tile(prompt, len(SIDES)), "indicator": np.repeat(SIDES, len(prompt))}
    ).assign(lemma=np.tile(words[noun], len(SIDES)), human=np.tile(noun == PERSON, len(SIDES)))
    u, s, o = np.nonzero(detected)
    objects = samples.iloc[u * len(SIDES) + s].assign(object=o, lemma=words[o], human=o == PERSON)
    return CheckedRun(samples, nouns, objects.reset_index(drop=True), there, detected, named)
