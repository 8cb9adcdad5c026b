"""Sweeps over audits of attributes (GEP) at the frequencies that Zhang et al. 2023 print.

With labels alone an attribute is in an image where a normal variable falls below its frequency's quantile
(`draw_images`). With a classifier beside them images have just the frequencies of Tables 11 and 12, 80 a word; it
reads them with the areas under the curve of Table 16 (CLS); where it errs by word, more into the first word's images.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, product
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special, stats
from scipy.special import expit, logit

from analysis.methods.gep.evaluation import agreements, label_ceiling
from analysis.methods.gep.inference import infer
from analysis.methods.gep.scores import Audit, vector
from analysis.stats.absolute_mean import score_differences
from analysis.stats.permutation import paired_floor, sign_flip_test
from analysis.stats.prediction_powered import prediction_powered, rectified, score_interval, weights
from lab.papers.gep_floors import CONTEXTS, IMAGES, SEEDS, attribute_counts
from lab.papers.tables import read_table
from lab.validate.statistics.rates import (
    ALPHA,
    AT_LEAST,
    AT_MOST,
    COVERS,
    POWER,
    counted_row,
    covered_row,
    rejection_row,
    sweep,
)
from probes.config.schema import Measure

Floats = NDArray[np.float64]
Cell = tuple[str, NDArray[np.int64], Floats]
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
LABELLED = (15, 20, 40)
ERRORS = {
    "one error for both words": 0.0,
    "errs by word": 1.0,
}  # how far the first word's readings are shifted, in s.d.
UNKNOWN = 0.9  # area of an attribute that the paper has none for
NEAR = 0.005  # how far off a score may be on average
Bias = dict[str, float | str]


def published_cells(folder: Path | None = None) -> Iterator[Cell]:
    """Yield each setting and model: its name, counts of 80 images ``(2, n_attributes)`` and CLS's areas."""
    columns = ["estimator", "model", "attribute", "auc"]
    table = read_table("gep2023_table16_auc_by_attribute", columns, numeric=["auc"], folder=folder)
    table = table[table["estimator"].str.startswith("CLS")].set_index(["model", "attribute"])["auc"]
    for (setting, model), rows in attribute_counts(folder).groupby(level=["setting", "model"], sort=False):
        area = table[model].reindex(rows.index.get_level_values("attribute")).fillna(UNKNOWN)
        yield f"{model}, {setting}", rows[["woman", "man"]].to_numpy().T, area.to_numpy()


def draw_images(
    frequency: Floats,
    contexts: int,
    images: int,
    rng: np.random.Generator,
    *,
    context: float = CONTEXT,
    seed: float = 0.0,
    paired: float = PAIRED,
) -> Floats:
    """Whether each attribute is in each image, shape (n_contexts, 2, n_images, n_attributes).

    Variances: of a context with a word, of a noise with a word over all contexts, of what both words of a noise share.
    """

    def normal(variance: float, *shape: int) -> Floats:
        return np.sqrt(variance) * rng.standard_normal((*shape, frequency.shape[1]))

    shared = (
        normal(context, contexts, 2, 1) + normal(seed, 1, 2, images) + normal(paired, contexts, 1, images)
    )
    latent = shared + normal(1 - context - seed - paired, contexts, 2, images)
    return (latent < special.ndtri(frequency)[:, None]).astype(float)


def draw_audit(
    counts: NDArray[np.int64], areas: Floats, shift: float, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Labels and predictions of all images, shape (2, 80, n_attributes), the images in any order."""
    labels = (np.arange(IMAGES)[:, None] < counts[:, None]).astype(float)
    labels = rng.permuted(labels, axis=1)
    reading = np.sqrt(2) * stats.norm.ppf(np.clip(areas, 0.5, 0.99)) * labels + rng.standard_normal(
        labels.shape
    )
    reading[0] += shift
    return labels, expit(2 * (reading - 1.2))


def some_labels(labels: Floats, n: int, rng: np.random.Generator) -> Floats:
    """The labels of n images of each word and attribute, (2, n_images, n_attributes), chosen at random; else NaN."""
    order = rng.random(labels.shape).argsort(axis=1).argsort(axis=1)
    return np.where(order < n, labels, np.nan)


def audit_of(values: Floats, setting: str = "neutral", noise: str = "own") -> Audit:
    """An audit of values of shape (n_contexts, 2, n_images, n_attributes)."""
    contexts, attributes = (tuple(map(str, range(values.shape[axis]))) for axis in (0, 3))
    return Audit(values, contexts, PAIR, attributes, setting, "human", noise)


def label_coverage(
    simulations: int = 100, seed: int = 0, *, labelled: tuple[int, ...] = (*LABELLED, IMAGES)
) -> tuple[pd.DataFrame, list[Bias]]:
    """How often intervals from labels alone hold the published scores, and how far scores and tau are off.

    `raw` and `score` are means less the truth; `ceiling`: what the labels say of tau, of the audits that have one.
    """
    biases: list[Bias] = []

    def rows(cell: Cell, rng: np.random.Generator, _: int) -> Iterator[tuple]:
        name, counts, _areas = cell
        frequency = counts / IMAGES
        difference = frequency[0] - frequency[1]
        truth = float(np.abs(difference).mean())
        for n in labelled:
            found = []
            for one in range(simulations):
                images = draw_images(frequency, CONTEXTS, SEEDS, rng)
                by_word = images.swapaxes(0, 1)
                known = some_labels(by_word.reshape(2, -1, images.shape[3]), n, rng).reshape(by_word.shape)
                labels, whole = audit_of(known.swapaxes(0, 1)), audit_of(images)
                got, score = infer(labels, *PAIR, MEASURE)
                inside = (got["low"] <= difference) & (difference <= got["high"])
                found.append(
                    {"raw": score["score"] - truth, "score": score["debiased"] - truth}
                    | {"held": score["low"] <= truth <= score["high"]}
                    | {"vector": inside[np.isfinite(got["low"])].mean()}
                    | {"tau": float(agreements([vector(labels, *PAIR)], [vector(whole, *PAIR)])[0][0])}
                    | {"ceiling": label_ceiling(labels, whole, *PAIR, seed=one)}
                )
            table = pd.DataFrame(found).astype(float)
            table["tau"] = table["tau"].where(table["ceiling"].notna())
            means = table[["raw", "score", "tau", "ceiling"]].mean()
            ceilings = float(table["ceiling"].notna().mean())
            biases.append({"world": name, "n": n, "truth": truth, "ceilings": ceilings, **means})
            yield counted_row(f"{name}, {n} labels", "score, held", table["held"], COVERS)
            yield counted_row(f"{name}, {n} labels", "differences, held", table["vector"], AT_LEAST)

    return sweep(published_cells(), rows, 1300, seed), biases


def unit_rejections(simulations: int = 100, seed: int = 0) -> pd.DataFrame:
    """How often scores and differences are significant where the words have one frequency, by design.

    *Any*: the smallest adjusted p-value; *contexts alone*: contexts are the unit though they share their noise.
    """
    counts = {world: counts for world, counts, _ in published_cells()}["Stable Diffusion, explicit"]
    frequency = np.tile((counts / IMAGES).mean(axis=0), (2, 1))

    def rows(unit: tuple, rng: np.random.Generator, _: int) -> Iterator[tuple]:
        contexts, images, noise, setting, shared = unit
        paired = 0.0 if noise == "unpaired" else PAIRED
        variances = {"context": CONTEXT if contexts > 1 else 0.0, "seed": shared, "paired": paired}
        found = []
        for _ in range(simulations):
            values = draw_images(frequency, contexts, images, rng, **variances)
            got, score = infer(audit_of(values, setting, noise), *PAIR, MEASURE)
            plain = np.nan
            if noise == "shared":
                plain = infer(audit_of(values, setting), *PAIR, MEASURE)[1]["p_value"] <= ALPHA
            inside = ((got["low"] <= 0) & (got["high"] >= 0))[np.isfinite(got["low"])]
            anything = np.nanmin(got["p_adjusted"]) <= ALPHA
            found.append([score["p_value"] <= ALPHA, anything, inside.mean(), plain])
        world = f"{contexts} context{'s' * (contexts > 1)} of {images}, {noise} noise, {setting}" + (
            f", variance {shared}" if shared else ""
        )
        scores, anything, held, plain = np.array(found, float).T
        yield counted_row(world, "score", scores)
        yield counted_row(world, "any attribute", anything)
        yield counted_row(world, "differences, held", held, AT_LEAST)
        yield counted_row(world, "score, contexts alone", plain)

    return sweep(UNITS, rows, 1350, seed)


def powered_coverage(
    simulations: int = 200, seed: int = 0, *, labelled: tuple[int, ...] = LABELLED
) -> tuple[pd.DataFrame, list[Bias]]:
    """Coverage of the prediction-powered score and of the differences, and by world and labels their mean errors."""
    biases: list[Bias] = []

    def rows(case: tuple[str, Cell], rng: np.random.Generator, _: int) -> Iterator[tuple]:
        error, (name, counts, areas) = case
        difference = (counts[0] - counts[1]) / IMAGES
        truth = np.abs(difference).mean()
        for n in labelled:
            world, scores, found = f"{name}, {error}, {n} labels", [], []
            for _ in range(simulations):
                labels, predictions = draw_audit(counts, areas, ERRORS[error], rng)
                result = prediction_powered(some_labels(labels, n, rng), predictions)
                scores.append(score_interval(result))
                found.append((result.difference, *result.interval()))
            low, high, score, raw = (
                np.array([getattr(one, end) for one in scores]) for end in ("low", "high", "score", "raw")
            )
            vectors = np.array(found).swapaxes(0, 1)
            yield covered_row(world, "score, held", truth, (low, high))
            held = (vectors[1] - 1e-9, vectors[2] + 1e-9)  # an attribute that no image has is known exactly
            yield covered_row(world, "differences, held", difference, held, AT_LEAST)
            off = np.abs(vectors[0].mean(axis=0) - difference)
            error_of_mean = np.maximum(vectors[0].std(axis=0) / np.sqrt(simulations), 1e-9)
            biases.append(
                {"world": f"{name}, {error}", "n": n, "truth": float(truth), "raw": float(raw.mean() - truth)}
                | {"score": float(score.mean() - truth), "error": float(score.std() / np.sqrt(simulations))}
                | {"vector": float(np.max(off / error_of_mean))}
            )

    return sweep(product(ERRORS, list(published_cells())), rows, 1200, seed), biases


def powered_rejections(
    simulations: int = 200, seed: int = 0, *, labelled: tuple[int, ...] = LABELLED
) -> pd.DataFrame:
    """How often tests over contexts of prediction-powered readings reject where both words' images are alike."""

    def rows(cell: Cell, rng: np.random.Generator, _: int) -> Iterator[tuple]:
        name, counts, areas = cell
        for n in labelled:
            scores, differences = [], []
            for one in range(simulations):
                chance = np.tile(counts.mean(axis=0) / IMAGES, (2, 1))
                labels, predictions = draw_audit(rng.binomial(IMAGES, chance), areas, 0.0, rng)
                known = some_labels(labels, n, rng)
                values = rectified(known, predictions, weights(known, predictions))
                by_context = values.reshape(2, CONTEXTS, -1, values.shape[2]).mean(axis=2)
                each = by_context[0] - by_context[1]
                scores.append(paired_floor(each, draws=199, seed=one).p_value)
                differences.append(sign_flip_test(each, permutations=199, seed=one).p_value)
            yield rejection_row(f"{name}, {n} labels", "score, test over contexts", scores)
            yield rejection_row(
                f"{name}, {n} labels", "differences, test over contexts", np.ravel(differences)
            )

    return sweep(published_cells(), rows, 1250, seed)


def compared_scores(simulations: int = 200, seed: int = 0) -> pd.DataFrame:
    """How often 95 % intervals of the difference between two models' scores hold it, paired by context.

    Labels of all images, five in each of 16 contexts; contexts make attributes more or less frequent for both models
    and words alike (on the logit, normal). The truth is the difference of the frequencies over contexts without end. A
    model is compared with another one of its setting, and with a second of its own kind.
    """
    cells = {name: counts / IMAGES for name, counts, _ in published_cells()}
    settings = [[name for name in cells if name.endswith(setting)] for setting in ("neutral", "explicit")]
    pairs = [pair for names in settings for pair in combinations_with_replacement(names, 2)]

    def rows(case: tuple[float, tuple[str, str]], rng: np.random.Generator, _: int) -> Iterator[tuple]:
        spread, pair = case
        base = logit(np.clip(np.stack([cells[name] for name in pair]), 0.002, 0.998))
        many = expit(base[:, None] + spread * rng.standard_normal((20_000, 1, base.shape[2])))
        truth = np.subtract(*np.abs((many[:, :, 0] - many[:, :, 1]).mean(axis=1)).mean(axis=1))
        ends = []
        for _ in range(simulations):
            chance = expit(base[:, None] + spread * rng.standard_normal((CONTEXTS, 1, base.shape[2])))
            seen = rng.binomial(SEEDS, chance) / SEEDS
            models, between = score_differences(seen[:, :, 0] - seen[:, :, 1])
            ends.append((between.low[0], between.high[0], models.best[0] < models.worst[0]))
        low, high, tied = np.array(ends).T
        same = pair[0] == pair[1]
        name = " and ".join(dict.fromkeys(one.split(",")[0] for one in pair)) + " twice" * same
        world = f"{name}, {pair[0].split(', ')[1]}, spread {spread:g}"
        yield covered_row(world, "difference of two models' scores, held", truth, (low, high))
        test = f"two ranks told apart, {'one model twice' if same else 'two models'}"
        yield counted_row(world, test, 1 - tied, AT_MOST if same else POWER)

    return sweep(product((0.0, 1.0), pairs), rows, 1300, seed)
