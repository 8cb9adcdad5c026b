"""ICM, a method for choices that no word makes: probes of self-attentions, and steering along what they have learnt.

Images of neutral prompts are labelled by what they show, here by the sign of the verdict, and a logistic regression is
trained to tell the label from each self-attention's output, mean over pixels, at each step. ICM takes the layers whose
probe is most accurate for those that choose, and adds a multiple of the probe's unit direction to their outputs.

Source
------
Zaleska, Popek, Wysoczańska and Deja 2026, "Attention, May I Have Your Decision? Localizing Generative Choices in
Diffusion Models" (Implicit Choice-Modification, arXiv:2604.06052). Its amount of steering is set by hand there, and its
layers are steered together, in later steps. Here each layer is steered alone and at all steps, by a vector as long as
the layer's outputs are, so that layers can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, cross_val_score

from hooks import Intervention, Patch, Probe
from lab.validate.tracing.choice_swaps import NEUTRAL, images
from lab.validate.tracing.coverage import templates
from probes.prompts.plan import noise_seed
from probes.toyworld.checker import read_images
from probes.toyworld.verdict import verdict
from probes.toyworld.world import World

DRAWN = 2  # seed of the probes' prompts
FOLDS = 5  # of prompts
AMOUNT = 1.0  # of the mean length of the outputs, each the mean over pixels
TOGETHER = 48  # images of a batch


@dataclass(frozen=True)
class ProbedImages:
    """Images of neutral prompts and what self-attentions have put out for them.

    Attributes
    ----------
    outputs : mapping of str to ndarray, shape (images, steps, channels)
        By site, mean over pixels.
    label : ndarray of bool, shape (images,)
        Whether the verdict is masculine.
    prompt : ndarray of int, shape (images,)
    """

    outputs: dict[str, NDArray[np.float64]]
    label: NDArray[np.bool_]
    prompt: NDArray[np.int64]


def probed_images(
    pipe: Any, world: World, sites: Sequence[str], *, prompts: int, seeds: int, steps: int
) -> ProbedImages:
    """Draw neutral prompts, each with some noises, and keep what the sites put out."""
    texts = [
        text.replace("{person}", NEUTRAL) for text in templates(prompts, seed=DRAWN) for _ in range(seeds)
    ]
    noise = [noise_seed(text, number % seeds) for number, text in enumerate(texts)]
    outputs: dict[str, list[NDArray[np.float64]]] = {site: [] for site in sites}
    label = []
    for start in range(0, len(texts), TOGETHER):
        some = slice(start, start + TOGETHER)
        with Probe(pipe, pool=tuple(sites)) as probe:
            drawn = images(pipe, texts[some], noise[some], steps)
        label.append(verdict(read_images(drawn), texts[some], world) > 0)
        for site in sites:
            outputs[site].append(np.moveaxis(probe.pooled[site].values.double().numpy(), 0, 1))
    return ProbedImages(
        {site: np.concatenate(values) for site, values in outputs.items()},
        np.concatenate(label),
        np.repeat(np.arange(prompts), seeds),
    )


def accuracy(found: ProbedImages) -> NDArray[np.float64]:
    """Return the balanced accuracy on held-out prompts of a probe of each site at each step, ``(sites, steps)``."""
    return np.array(
        [
            [
                cross_val_score(
                    _classifier(),
                    values[:, step],
                    found.label,
                    groups=found.prompt,
                    cv=GroupKFold(FOLDS),
                    scoring="balanced_accuracy",
                ).mean()
                for step in range(values.shape[1])
            ]
            for values in found.outputs.values()
        ]
    )


def _classifier() -> Any:
    return LogisticRegression(max_iter=1000)


def directions(found: ProbedImages, site: str) -> NDArray[np.float64]:
    """Return what is added at a site at each step for masculine images, ``(steps, channels)``."""
    added = []
    for values in np.moveaxis(found.outputs[site], 1, 0):
        weight = _classifier().fit(values, found.label).coef_[0]
        unit = weight / np.linalg.norm(weight)
        added.append(AMOUNT * np.linalg.norm(values, axis=1).mean() * unit)
    return np.array(added)


def steered(
    pipe: Any, world: World, found: ProbedImages, texts: Sequence[str], seeds: Sequence[int], steps: int
) -> NDArray[np.float64]:
    """Return what steering at each site does to the verdict, masculine less feminine, ``(images, sites)``.

    Parameters
    ----------
    texts, seeds : sequence
        Neutral prompts, each with the seed of its noise.
    """
    every = [directions(found, site) for site in found.outputs]
    rows, values = 2 * len(every), []
    at_once = max(1, TOGETHER // rows)
    for start in range(0, len(texts), at_once):
        some = range(start, min(start + at_once, len(texts)))
        patches = [
            Patch(
                site,
                into=[rows * image + 2 * number + side for image in range(len(some))],
                mode="add",
                direction=added[step],
                factor=factor,
                steps=(step,),
            )
            for number, (site, added) in enumerate(zip(found.outputs, every, strict=True))
            for side, factor in enumerate((-1.0, 1.0))
            for step in range(steps)
        ]
        chosen = [one for one in some for _ in range(rows)]
        with Intervention(pipe, patches):
            drawn = images(pipe, [texts[one] for one in chosen], [seeds[one] for one in chosen], steps)
        read = verdict(read_images(drawn), [texts[one] for one in chosen], world)
        read = read.reshape(len(some), len(every), 2)
        values.append(read[..., 1] - read[..., 0])
    return np.concatenate(values)
