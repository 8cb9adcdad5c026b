"""What the images of a run show, an image a row: the verdict and the named things of toyworld's, and their pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from probes.config.schema import Config
from probes.runs.store import Run
from probes.toyworld.checker import THINGS, read_images
from probes.toyworld.scene import parse
from probes.toyworld.verdict import SLOTS, left_out, verdict
from probes.toyworld.world import World, group_of_words, load_world

CHUNK = 512  # images that are held at once
SIDE = 32  # pixels to a side at which images are compared


@dataclass(frozen=True)
class Readings:
    """The images of a run, or of several of one model.

    Attributes
    ----------
    images : DataFrame
        One row per image that is not left out: ``prompt``, ``reference`` (the prompt with the reference's word: what
        the words of a triplet have in common), ``indicator``, ``seed``, ``noise_seed``; of a toyworld model
        also ``verdict`` (log-odds of mixture component b against a), ``named`` (share of the named things that are
        seen, NaN where none is named) and a bool column a thing.
    scenes : ndarray of int64, shape (n_images, n_slots)
        What is seen in each slot, as a number; -1 where the prompt names it. Empty for other models.
    pixels : ndarray of uint8, shape (n_images, 3072)
        At 32 x 32.
    left_out : int
        Images that were at fault or cannot be read.
    """

    images: pd.DataFrame
    scenes: NDArray[np.int64]
    pixels: NDArray[np.uint8]
    left_out: int


def world_of(run: Run) -> World | None:
    """The world that a run's model was taught, by the card in its record; None of other models."""
    card = (run.meta.get("model") or {}).get("card") or {}
    name = card.get("world") if isinstance(card, dict) else None
    try:
        return load_world(name) if isinstance(name, str) else None
    except KeyError:
        return None


def ends_of(config: Config, world: World) -> tuple[str, str] | None:
    """Return the indicators whose words mean mixture component a alone, and b alone; None where there are not both."""
    groups = group_of_words()
    means = {
        world.mixture.get(groups.get(one.word, ("", False))[0]): name
        for name, one in reversed(config.indicators.items())
        if not one.control
    }
    return (means[0.0], means[1.0]) if {0.0, 1.0} <= set(means) else None


def read(runs: Sequence[Run], world: World | None) -> Readings:
    """Read every image of runs of one model.

    Parameters
    ----------
    world : World or None
        None: no checker reads these images, only pixels are taken.
    """
    tables, scenes, pixels, without = [], [], [], 0
    for run in runs:
        table = run.samples(["sample_id", "triplet", "prompt", "indicator", "seed", "noise_seed"])
        plain = table[table["indicator"] == run.config.reference].drop_duplicates("triplet")
        table["reference"] = table["triplet"].map(plain.set_index("triplet")["prompt"])
        table = table.drop(columns="triplet")
        out = run.left_out()
        without += int(table["sample_id"].isin(list(out)).sum())
        table = table[~table["sample_id"].isin(list(out))].reset_index(drop=True)
        for start in range(0, len(table), CHUNK):
            rows = table.iloc[start : start + CHUNK].reset_index(drop=True)
            images = run.images(rows["sample_id"])
            small = [np.asarray(image.convert("RGB").resize((SIDE, SIDE), 4)).reshape(-1) for image in images]
            pixels.append(np.stack(small))
            if world is not None:
                seen = read_images(images)
                rows = pd.concat([rows, judged(seen, list(rows["prompt"]), world)], axis=1)
                scenes.append(_scenes(seen, list(rows["prompt"]), world))
            tables.append(rows)
    return Readings(
        pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(),
        np.concatenate(scenes) if scenes else np.zeros((0, 0), np.int64),
        np.concatenate(pixels) if pixels else np.zeros((0, 3 * SIDE * SIDE), np.uint8),
        without,
    )


def judged(seen: pd.DataFrame, prompts: Sequence[str], world: World) -> pd.DataFrame:
    """Return of each image what it was read to hold, its ``verdict``, and ``named``: see `Readings`."""
    named = [sorted(parse(prompt, world).things) for prompt in prompts]
    shares = [
        float(np.mean([seen.at[row, thing] for thing in things])) if things else np.nan
        for row, things in enumerate(named)
    ]
    table = pd.DataFrame({"verdict": verdict(seen, prompts, world), "named": shares})
    return pd.concat([table, seen[[*THINGS, "side"]]], axis=1)


def _scenes(seen: pd.DataFrame, prompts: list[str], world: World) -> NDArray[np.int64]:
    """Return what is in each slot but the side: the sum of powers of two of what is seen, -1 where the prompt names
    it.
    """
    columns = []
    named = [left_out(parse(prompt, world)) for prompt in prompts]
    for slot in SLOTS[:-1]:
        things = [name for name in world.data["slots"][slot]["a"] if name != "none"]
        value = sum(
            (seen[name].to_numpy(np.int64) << bit for bit, name in enumerate(things)),
            np.zeros(len(seen), int),
        )
        columns.append(np.where([slot in names for names in named], -1, value))
    return np.stack(columns, axis=1)
