"""Audits of attributes (GEP) at the frequencies that Zhang et al. 2023 print: do intervals and tests hold?

An attribute is in an image where a normal variable falls below its frequency's quantile. The variable adds what the
context with the word gives, what a noise with the word gives (one that all contexts share, or none), what both words of
a noise share, and a rest. Frequencies are those of Tables 11 and 12; without a difference both words have their mean.
Labels are of so many images of each word and attribute, chosen at random from 16 contexts of five images.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from analysis.methods.gep.evaluation import agreements, label_ceiling
from analysis.methods.gep.inference import infer
from analysis.methods.gep.scores import Audit, vector
from lab.papers.gep_floors import CONTEXTS, IMAGES, SEEDS
from lab.templates import render
from lab.validate.statistics import audits
from lab.validate.statistics.simulation import ALPHA
from probes.config.schema import Measure

LABELLED = (15, 20, 40, 80)
PAIR = ("woman", "man")
CONTEXT, PAIRED = 0.15, 0.15  # variances: of a context with a word; of a noise, shared by its two images
MEASURE = Measure(permutations=200, bootstrap=100)
# contexts, images, noise, setting, variance that a noise and word share over all contexts
UNITS = (
    (1, 20, "own", "neutral", 0.0),
    (1, 20, "unpaired", "neutral", 0.0),
    (1, 20, "own", "explicit", 0.0),
    (8, 5, "own", "neutral", 0.0),
    (16, 5, "own", "neutral", 0.0),
    (16, 3, "shared", "neutral", 0.4),
    (16, 5, "shared", "neutral", 0.0),
    (16, 5, "shared", "neutral", 0.4),
    (16, 10, "shared", "neutral", 0.0),
    (16, 10, "shared", "neutral", 0.4),
)


def draw_images(
    frequency: NDArray[np.float64],
    contexts: int,
    images: int,
    rng: np.random.Generator,
    *,
    context: float = CONTEXT,
    seed: float = 0.0,
    paired: float = PAIRED,
) -> NDArray[np.float64]:
    """Return whether each attribute is in each image, shape (n_contexts, 2, n_images, n_attributes)."""
    attributes = frequency.shape[1]

    def normal(variance: float, *shape: int) -> NDArray[np.float64]:
        return np.sqrt(variance) * rng.standard_normal((*shape, attributes))

    latent = (
        normal(context, contexts, 2, 1) + normal(seed, 1, 2, images) + normal(paired, contexts, 1, images)
    )
    latent = latent + normal(1 - context - seed - paired, contexts, 2, images)
    return (latent < special.ndtri(frequency)[:, None]).astype(float)


def audit_of(values: NDArray[np.float64], setting: str = "neutral", noise: str = "own") -> Audit:
    """Return an audit of these values."""
    contexts, attributes = (tuple(map(str, range(values.shape[axis]))) for axis in (0, 3))
    return Audit(values, contexts, PAIR, attributes, setting, "human", noise)


def some_labels(values: NDArray[np.float64], n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the labels of n images of each word and attribute, chosen at random; NaN elsewhere."""
    contexts, words, images, attributes = values.shape
    by_word = values.swapaxes(0, 1)
    known = audits.some_labels(by_word.reshape(words, contexts * images, attributes), n, rng)
    return known.reshape(by_word.shape).swapaxes(0, 1)


def label_rows(
    *, simulations: int = 150, labelled: tuple[int, ...] = LABELLED, seed: int = 0
) -> pd.DataFrame:
    """Return how often intervals from labels alone hold the published scores, and how far scores and tau are off.

    A row per setting, model and number of labels; `raw` and `score` are means less the truth, `ceiling` what the labels
    say of tau.
    """
    rows = []
    for number, (world, counts, _) in enumerate(audits.published_cells()):
        frequency = counts / IMAGES
        difference = frequency[0] - frequency[1]
        truth, rng = float(np.abs(difference).mean()), np.random.default_rng([seed, 1300 + number])
        for n in labelled:
            found = []
            for one in range(simulations):
                images = draw_images(frequency, CONTEXTS, SEEDS, rng)
                labels, whole = audit_of(some_labels(images, n, rng)), audit_of(images)
                got, score = infer(labels, *PAIR, MEASURE)
                inside = (got["low"] <= difference) & (difference <= got["high"])
                found.append(
                    {
                        "raw": score["score"] - truth,
                        "score": score["debiased"] - truth,
                        "held": score["low"] <= truth <= score["high"],
                        "width": score["high"] - score["low"],
                        "vector": inside[np.isfinite(got["low"])].mean(),
                        "tau": float(agreements([vector(labels, *PAIR)], [vector(whole, *PAIR)])[0][0]),
                        "ceiling": label_ceiling(labels, whole, *PAIR, seed=one),
                    }
                )
            table = pd.DataFrame(found).astype(float)
            table["tau"] = table["tau"].where(table["ceiling"].notna())  # of the audits that have a ceiling
            ceilings = float(table["ceiling"].notna().mean())
            rows.append({"world": world, "n": n, "truth": truth, **table.mean(), "ceilings": ceilings})
    return pd.DataFrame(rows)


def unit_rows(*, simulations: int = 150, seed: int = 0) -> pd.DataFrame:
    """Return how often scores and differences are significant at 5 % where the words have one frequency, by design.

    `any`: the smallest adjusted p-value; `over_contexts`: the score with contexts as the unit; `vector`: intervals that
    hold 0.
    """
    counts = {world: counts for world, counts, _ in audits.published_cells()}["Stable Diffusion, explicit"]
    frequency = np.tile((counts / IMAGES).mean(axis=0), (2, 1))
    rows = []
    for number, (contexts, images, noise, setting, shared) in enumerate(UNITS):
        rng, found = np.random.default_rng([seed, 1350 + number]), []
        for _ in range(simulations):
            variances = {
                "context": CONTEXT if contexts > 1 else 0.0,
                "seed": shared,
                "paired": 0.0 if noise == "unpaired" else PAIRED,
            }
            values = draw_images(frequency, contexts, images, rng, **variances)
            got, score = infer(audit_of(values, setting, noise), *PAIR, MEASURE)
            plain = np.nan
            if noise == "shared":
                plain = infer(audit_of(values, setting), *PAIR, MEASURE)[1]["p_value"] <= ALPHA
            known = np.isfinite(got["low"])
            found.append(
                {
                    "score": score["p_value"] <= ALPHA,
                    "any": np.nanmin(got["p_adjusted"]) <= ALPHA,
                    "over_contexts": plain,
                    "vector": ((got["low"] <= 0) & (got["high"] >= 0))[known].mean(),
                }
            )
        design = {
            "contexts": contexts,
            "images": images,
            "noise": noise,
            "setting": setting,
            "shared": shared,
        }
        rows.append({**design, **pd.DataFrame(found).astype(float).mean()})
    return pd.DataFrame(rows)


def page_section(*, simulations: int = 200, seed: int = 0) -> str:
    """Return the part of ``docs/validation/statistics.md`` on labels, contexts and seeds of an audit, in Markdown."""
    labels = label_rows(simulations=simulations, seed=seed)
    near = labels[(labels["n"] < IMAGES) & (labels["ceilings"] > 0.9)]
    return render(
        "statistics_contexts",
        simulations=simulations,
        labels=labels.to_dict("records"),
        units=unit_rows(simulations=simulations, seed=seed).to_dict("records"),
        held=float(labels["held"].mean()),
        inside=int(labels["held"].between(0.93, 0.97).sum()),
        worst=float(labels["score"].abs().max()),
        within=int((labels["score"].abs() <= 0.005).sum()),
        off=float((near["ceiling"] - near["tau"]).abs().max()),
        error=float(np.sqrt(0.95 * 0.05 / simulations)),
    )
