"""A few labels and a classifier's reading together (GEP), at the frequencies that Zhang et al. 2023 print.

The images of an audit have just the frequencies of Tables 11 and 12, 80 a word; a classifier reads them with the areas
under the curve of Table 16 (CLS), normal among images with and without the attribute. One errs by word: it reads more
into all images of the first. So many images of each word and attribute are labelled at random, and the truth is what
labels of all would give. Tests over contexts are shown images of two words of the same frequencies.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit, logit

from analysis.stats.absolute_mean import score_differences
from analysis.stats.permutation import paired_floor, sign_flip_test
from analysis.stats.prediction_powered import prediction_powered, rectified, score_interval, weights
from lab.papers.gep_floors import CONTEXTS, IMAGES, SEEDS, attribute_counts
from lab.papers.tables import read_table
from lab.templates import render
from lab.validate.statistics.simulation import COLUMNS, covered_row, rejection_row

LABELLED = (15, 20, 40)
ERRORS = {
    "one error for both words": 0.0,
    "errs by word": 1.0,
}  # how far the first word's readings are shifted, in s.d.
UNKNOWN = 0.9  # area of an attribute that the paper has none for
SCORE, DIFFERENCE = "prediction-powered score", "prediction-powered difference"
Cell = tuple[str, NDArray[np.int64], NDArray[np.float64]]


def published_cells(folder: Path | None = None) -> Iterator[Cell]:
    """Yield each setting and model: its name, counts of 80 images ``(2, n_attributes)`` and CLS's areas."""
    table = read_table(
        "gep2023_table16_auc_by_attribute",
        ["estimator", "model", "attribute", "auc"],
        numeric=["auc"],
        folder=folder,
    )
    table = table[table["estimator"].str.startswith("CLS")].set_index(["model", "attribute"])["auc"]
    counts = attribute_counts(folder)
    for (setting, model), rows in counts.groupby(level=["setting", "model"], sort=False):
        area = table[model].reindex(rows.index.get_level_values("attribute")).fillna(UNKNOWN)
        yield f"{model}, {setting}", rows[["woman", "man"]].to_numpy().T, area.to_numpy()


def drawn_audit(
    counts: NDArray[np.int64], areas: NDArray[np.float64], shift: float, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return labels and predictions of all images, shape (2, 80, n_attributes), the images in any order."""
    labels = (np.arange(IMAGES)[:, None] < counts[:, None]).astype(float)
    labels = rng.permuted(labels, axis=1)
    apart = np.sqrt(2) * stats.norm.ppf(np.clip(areas, 0.5, 0.99))
    reading = apart * labels + rng.standard_normal(labels.shape)
    reading[0] += shift
    return labels, expit(2 * (reading - 1.2))


def some_labels(labels: NDArray[np.float64], n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the labels of n images of each word and attribute, chosen at random; NaN elsewhere."""
    order = rng.random(labels.shape).argsort(axis=1).argsort(axis=1)
    return np.where(order < n, labels, np.nan)


def powered_coverage(
    *, simulations: int = 150, labelled: tuple[int, ...] = LABELLED, seed: int = 0
) -> tuple[pd.DataFrame, list[dict]]:
    """Return rows of coverage of the score and of the differences, and by world and labels their mean errors."""
    rows, biases = [], []
    for number, (error, (name, counts, areas)) in enumerate(
        (error, cell) for error in ERRORS for cell in published_cells()
    ):
        rng = np.random.default_rng([seed, 1200 + number])
        difference = (counts[0] - counts[1]) / IMAGES
        truth = np.abs(difference).mean()
        for n in labelled:
            world, scores, found = f"{name}, {error}, {n}", [], []
            for _ in range(simulations):
                labels, predictions = drawn_audit(counts, areas, ERRORS[error], rng)
                result = prediction_powered(some_labels(labels, n, rng), predictions)
                scores.append(score_interval(result))
                found.append((result.difference, *result.interval()))
            ends = tuple(np.array([getattr(one, end) for one in scores]) for end in ("low", "high"))
            vectors = np.array(found).swapaxes(0, 1)
            rows.append(covered_row(world, SCORE, truth, ends))
            held = (vectors[1] - 1e-9, vectors[2] + 1e-9)  # an attribute that no image has is known exactly
            rows.append(
                covered_row(
                    world, DIFFERENCE, np.tile(difference, simulations), tuple(e.ravel() for e in held)
                )
            )
            score, raw = (np.array([getattr(one, key) for one in scores]) for key in ("score", "raw"))
            error_of_mean = vectors[0].std(axis=0) / np.sqrt(simulations)
            off = np.abs(vectors[0].mean(axis=0) - difference)
            biases.append(
                {
                    "world": f"{name}, {error}",
                    "n": n,
                    "truth": float(truth),
                    "raw": float(raw.mean() - truth),
                    "score": float(score.mean() - truth),
                    "error": float(score.std() / np.sqrt(simulations)),
                    "sd": float(score.std()),
                    "vector": float(np.max(off / np.maximum(error_of_mean, 1e-9))),
                }
            )
    return pd.DataFrame(rows, columns=list(COLUMNS)), biases


def powered_rejections(
    *, simulations: int = 150, labelled: tuple[int, ...] = LABELLED, permutations: int = 199, seed: int = 0
) -> pd.DataFrame:
    """Return how often tests over contexts of prediction-powered readings reject where both words' images are alike."""
    rows = []
    for number, (name, counts, areas) in enumerate(published_cells()):
        rng = np.random.default_rng([seed, 1250 + number])
        for n in labelled:
            p_values: dict[str, list] = {SCORE: [], DIFFERENCE: []}
            for one in range(simulations):
                chance = np.tile(counts.mean(axis=0) / IMAGES, (2, 1))
                labels, predictions = drawn_audit(rng.binomial(IMAGES, chance), areas, 0.0, rng)
                known = some_labels(labels, n, rng)
                values = rectified(known, predictions, weights(known, predictions))
                by_context = values.reshape(2, CONTEXTS, -1, values.shape[2]).mean(axis=2)
                each = by_context[0] - by_context[1]
                draws = {"seed": one}
                p_values[SCORE].append(paired_floor(each, draws=permutations, **draws).p_value)
                p_values[DIFFERENCE].append(sign_flip_test(each, permutations=permutations, **draws).p_value)
            for test, values in p_values.items():
                rows.append(rejection_row(f"{name}, {n}", test, False, np.ravel(values)))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def compared_scores(*, simulations: int = 200, seed: int = 0) -> pd.DataFrame:
    """Return how often 95 % intervals of the difference between two models' scores hold it, paired by context.

    Labels of all images, five in each of 16 contexts; contexts make attributes more or less frequent for both models
    and words alike (on the logit, normal). The truth is the difference of the frequencies over contexts without end. A
    model is compared with another one of its setting, and with a second of its own kind.
    """
    rows = []
    cells = {name: counts / IMAGES for name, counts, _ in published_cells()}
    settings = [[name for name in cells if name.endswith(setting)] for setting in ("neutral", "explicit")]
    pairs = [pair for names in settings for pair in combinations_with_replacement(names, 2)]
    for number, (spread, pair) in enumerate((spread, pair) for spread in (0.0, 1.0) for pair in pairs):
        rng = np.random.default_rng([seed, 1300 + number])
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
        name = " and ".join(dict.fromkeys(one.split(",")[0] for one in pair))
        setting = pair[0].split(", ")[1]
        world = f"{name}{' twice' if pair[0] == pair[1] else ''}, {setting}"
        held, _, _ = covered_row(world, DIFFERENCE, truth, (low, high))[3:]
        rows.append((world, spread, truth, held, float(1 - tied.mean())))
    return pd.DataFrame(rows, columns=["world", "spread", "truth", "held", "told"])


def page_section(*, simulations: int = 200, seed: int = 0) -> str:
    """Return the part of ``docs/validation/statistics.md`` on a few labels and a classifier together, in Markdown."""
    covered, biases = powered_coverage(simulations=simulations, seed=seed)
    rates = covered.pivot(index="world", columns="test", values="rate")
    rows = [
        {**row, "held": rates.loc[key, SCORE], "vector": rates.loc[key, DIFFERENCE]}
        for row in biases
        for key in (f"{row['world']}, {row['n']}",)
    ]
    rejected = powered_rejections(simulations=simulations, seed=seed)
    rejected = rejected.pivot_table(index="world", columns="test", values="rate", sort=False)
    off = [abs(row["score"]) for row in rows]
    return render(
        "statistics_audits",
        simulations=simulations,
        rows=rows,
        within=sum(one <= 0.005 for one in off),
        worst=max(off),
        held=float(np.mean([row["held"] for row in rows])),
        error=float(np.sqrt(0.95 * 0.05 / simulations)),
        compared=compared_scores(simulations=simulations, seed=seed).to_dict("records"),
        rejected=[
            {"world": world, "n": n, "score": row[SCORE], "vector": row[DIFFERENCE]}
            for key, row in rejected.iterrows()
            for world, n in (str(key).rsplit(", ", 1),)
        ],
    )
