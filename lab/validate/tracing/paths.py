"""Path patching between two cross-attentions: how much of what one does passes through what another reads.

The first place is given the donor's keys and values, and the second is held at the recipient's own. What the patch of
the first then no longer does has passed through the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hooks import Intervention, Patch
from lab.validate.tracing.certificates import DONORS
from lab.validate.tracing.methods import GUIDANCE
from lab.validate.tracing.structure_scores import Trial
from probes.runs.image_faults import eight_bits
from probes.stages.trace.triplet_draw import TripletDraw
from probes.toyworld.checker import read_images
from probes.toyworld.verdict import verdict

PARTS = ("key", "value")
# rows of a draw: the three words, and of each donor the first place alone, and with the second held
_PLAIN, _PATCHED = 3, 2
_ROWS = _PLAIN + _PATCHED * len(DONORS)
TOGETHER = 8  # draws of a batch


def paths(trial: Trial, places: Sequence[str]) -> dict[tuple[str, str], NDArray[np.float64]]:
    """Return the effect of each place alone and with a later one held, in units of the verdict.

    Parameters
    ----------
    trial : Trial
    places : sequence of str
        Addresses in the order in which they run.

    Returns
    -------
    dict
        By first and second place ``(draws, 2)``: the change by the first place's patch, masculine less feminine, and
        the same with the second held at the neutral word's keys and values.

    Source
    ------
    Path patching: Wang et al. 2023; Goldowsky-Dill et al. 2023.
    """
    return {pair: _path(trial, *pair) for pair in combinations(places, 2)}


def _path(trial: Trial, first: str, second: str) -> NDArray[np.float64]:
    found = [
        _drawn(trial, trial.draws[start : start + TOGETHER], first, second)
        for start in range(0, len(trial.draws), TOGETHER)
    ]
    return np.concatenate(found)


def _drawn(trial: Trial, draws: Sequence[TripletDraw], first: str, second: str) -> NDArray[np.float64]:
    patches, texts, noise = [], [], []
    for number, one in enumerate(draws):
        begins = number * _ROWS
        words = ("neutral", *DONORS)
        texts += [one.prompts[word] for word in (*words, *["neutral"] * (_ROWS - _PLAIN))]
        noise += [torch.Generator("cpu").manual_seed(one.noise_seed) for _ in range(_ROWS)]
        for place in range(len(DONORS)):
            alone = begins + _PLAIN + _PATCHED * place
            patches += [
                Patch(first, part=PARTS, source=begins + 1 + place, into=(alone, alone + 1)),
                Patch(second, part=PARTS, source=begins, into=alone + 1),
            ]
    images: Any
    with Intervention(trial.pipe, patches):
        images = trial.pipe(
            texts,
            generator=noise,
            num_inference_steps=trial.steps,
            guidance_scale=GUIDANCE,
            output_type="np",
        ).images
    pixels = np.stack([eight_bits(image) for image in images])
    values = verdict(read_images(pixels), texts, trial.world).reshape(len(draws), _ROWS)
    feminine, masculine = values[:, _PLAIN : _PLAIN + _PATCHED], values[:, _PLAIN + _PATCHED :]
    return masculine - feminine
