"""Renderings, half of them passed through the autoencoder, with what the checker sees and what its verdict says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lab.train.base.captions import random_caption
from lab.train.detectors.pictures import WORLD, LabelledPictures, reconstructed
from probes.toyworld.checker import THINGS, read_images
from probes.toyworld.draw import SIZE, draw
from probes.toyworld.palette import RGB
from probes.toyworld.scene import CaptionContent, sample_scene
from probes.toyworld.verdict import verdict
from probes.toyworld.world import load_world

UNNAMED = CaptionContent("neutral")  # a picture that names nothing: all that is seen speaks for a component
EMPTY = 0.04  # share of pictures without a figure
FREE = 0.5  # share of pictures all of which is drawn at random; the others are drawn for a caption


@dataclass(frozen=True)
class QuestionedPictures(LabelledPictures):
    """Pictures with their verdicts ``(n,)``: log-odds of component b where nothing was named; NaN without a figure."""

    verdicts: NDArray[np.float64]


def make_questioned(
    count: int, seed: int, *, through_vae: float = 0.5, free: float = FREE, empty: float = EMPTY
) -> QuestionedPictures:
    """Draw pictures of the null world, in which the two components are as frequent, whatever is said.

    ``through_vae`` is the share, the last, that passes the autoencoder with some noise on the latents; of ``free`` all
    is drawn at random, and ``empty`` ones have no figure.
    """
    world, rng = load_world(WORLD), np.random.default_rng(seed)
    indices, figures = np.empty((count, SIZE, SIZE), np.uint8), rng.random(count) >= empty
    for row in range(count):
        named = UNNAMED if rng.random() < free else random_caption(world, rng)[1]
        indices[row] = draw(sample_scene(named, world, rng), figures=bool(figures[row]))
    seen = read_images(RGB[indices])
    images = reconstructed(RGB[indices], through_vae, seed)
    return QuestionedPictures(images, seen[list(THINGS)].to_numpy(bool), verdicts(seen, figures))


def verdicts(seen: pd.DataFrame, figures: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the verdicts ``(n,)`` of pictures, of what nothing was named; NaN without a figure."""
    said = verdict(seen, [UNNAMED] * len(seen), load_world(WORLD))
    said[~figures] = np.nan
    return said
