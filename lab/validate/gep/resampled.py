"""Audits drawn again and again from the images of one: do prediction-powered intervals hold, and what is the nearest?

Each audit draws its images anew within every cell of context and word, and then images to be labelled at random, word
by word. What labels of all its images give is the truth that every estimate is compared with. At equal numbers of
labels there are four ways: the labels alone; an estimate brought onto their scale by them (its weight times its
difference); the prediction-powered estimate, which is both; and, without any label, the estimate as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from analysis.methods.gep.evaluation import agreements
from analysis.methods.gep.scores import Audit, place
from analysis.stats.absolute_mean import absolute_mean
from analysis.stats.prediction_powered import prediction_powered, score_interval
from lab.validate.gep.readings import CHECKER, ESTIMATES, WORDS

AUDITS = 200
LABELS = "labels alone"


def drawn_images(
    values: Mapping[str, NDArray[np.float64]], rng: np.random.Generator, *, apart: bool
) -> dict[str, NDArray[np.float64]]:
    """Return an audit's values with the images of every cell drawn again, the same ones for every source.

    Parameters
    ----------
    values : mapping of str to ndarray, shape (n_contexts, n_words, n_images, n_attributes)
    rng : numpy.random.Generator
    apart : bool
        Each attribute has images of its own (the explicit setting).
    """
    shape = next(iter(values.values())).shape
    rows = rng.integers(shape[2], size=(*shape[:3], shape[3] if apart else 1))
    return {name: np.take_along_axis(each, rows, axis=2) for name, each in values.items()}


def random_labels(
    labels: NDArray[np.float64], n: int, rng: np.random.Generator, *, apart: bool
) -> NDArray[np.float64]:
    """Return the labels of `n` images of each word, NaN elsewhere; shape (2, n_images, n_attributes) as given."""
    order = rng.random((*labels.shape[:2], labels.shape[2] if apart else 1)).argsort(axis=1).argsort(axis=1)
    return np.where(order < n, labels, np.nan)


def resampled_audits(
    audits: Mapping[str, Audit], labelled: Sequence[int], *, count: int = AUDITS, seed: int = 0
) -> dict[str, dict]:
    """Return how near every way of estimating comes, and how often the intervals hold the truth, by number of labels.

    Parameters
    ----------
    audits : mapping of str to Audit
        Of one setting, by source.
    labelled : sequence of int
        Images of each word that are labelled (and for each attribute, where it has images of its own).
    count : int
        Audits.
    seed : int

    Returns
    -------
    dict
        By number of labels, as text: ``rmse`` by way, with ``vector`` (over audits and attributes) and ``score``;
        ``agreement`` of each way's vectors with the true ones, the mean over audits and its middle 95 %;
        ``held`` by estimate, with ``score`` and ``vector``, the shares of audits, and of differences, whose interval
        holds the truth, ``audits``, ``low`` and ``high`` (Clopper and Pearson's interval of the share of audits),
        ``width`` of the score's interval and ``error``, the mean standard error of a difference beside
        that of the ``labels_alone``.
    """
    apart = audits[CHECKER].setting == "explicit"
    words = [place(audits[CHECKER], word) for word in WORDS]
    values = {name: one.values[:, words] for name, one in audits.items()}
    rng = np.random.default_rng(seed)
    rows: dict[int, list[dict]] = {n: [] for n in labelled}
    for _ in range(count):
        drawn = {name: _grouped(each) for name, each in drawn_images(values, rng, apart=apart).items()}
        for n in labelled:
            rows[n].append(_one(drawn, random_labels(drawn[CHECKER], n, rng, apart=apart)))
    return {str(n): _summary(rows[n]) for n in labelled}


def _grouped(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Images of all contexts together, shape (n_words, n_images, n_attributes)."""
    return np.moveaxis(values, 1, 0).reshape(values.shape[1], -1, values.shape[3])


def _difference(values: NDArray[np.float64]) -> NDArray[np.float64]:
    first, second = np.nanmean(values, axis=1)
    return first - second


def _one(drawn: Mapping[str, NDArray[np.float64]], known: NDArray[np.float64]) -> dict:
    """Return what each way says of one audit."""
    truth = _difference(drawn[CHECKER])
    row: dict = {"truth": truth, "vectors": {}, "scores": {}, "held": {}}
    for name, vector, score, interval in _ways(drawn, known):
        row["vectors"][name], row["scores"][name] = vector, score
        if interval is not None:
            row["held"][name] = interval(truth)
    return row


def _ways(drawn: Mapping[str, NDArray[np.float64]], known: NDArray[np.float64]) -> Iterator[tuple]:
    """Name, vector, score of every way, and a function that says what its intervals hold."""
    for name in ESTIMATES:
        plain, result = _difference(drawn[name]), prediction_powered(known, drawn[name])
        scaled = result.weight.mean(axis=0) * plain
        yield name, plain, float(np.abs(plain).mean()), None
        yield f"{name}, scaled by labels", scaled, float(np.nanmean(np.abs(scaled))), None
        summary = score_interval(result)

        def held(truth, result=result, summary=summary):
            low, high = result.interval()
            there = result.reason == ""
            target = np.abs(truth[there]).mean()
            return {
                "score": summary.low - 1e-9 <= target <= summary.high + 1e-9,
                "vector": float(((low - 1e-9 <= truth) & (truth <= high + 1e-9))[there].mean()),
                "width": summary.high - summary.low,
                "error": float(np.nanmean(result.error)),
                "labels_alone": float(np.nanmean(result.labels_alone)),
            }

        yield f"{name}, prediction-powered", result.difference, summary.score, held
    alone = _difference(known)
    error = np.nan_to_num(result.labels_alone)  # the same whatever the predictions
    yield LABELS, alone, absolute_mean(alone, np.diag(error**2)).score, None


def _summary(rows: Sequence[dict]) -> dict:
    truth = np.stack([row["truth"] for row in rows])
    score = np.abs(truth).mean(axis=1)
    rmse, agreement = {}, {}
    for name in rows[0]["vectors"]:
        vectors = np.stack([row["vectors"][name] for row in rows])
        scores = np.array([row["scores"][name] for row in rows])
        rmse[name] = {
            "vector": float(np.sqrt(np.nanmean((vectors - truth) ** 2))),
            "score": float(np.sqrt(np.nanmean((scores - score) ** 2))),
        }
        tau, mcc, pearson, _ = agreements(vectors, truth)
        without = agreements(vectors, truth, zero="left out")[1]
        measures = {"tau": tau, "mcc": mcc, "mcc_without_zeros": without, "pearson": pearson}
        agreement[name] = {measure: _spread(values) for measure, values in measures.items()}
    held = {}
    for name in rows[0]["held"]:
        each = [row["held"][name] for row in rows]
        hits = sum(one["score"] for one in each)
        interval = stats.binomtest(hits, len(rows)).proportion_ci()
        held[name] = {
            "score": hits / len(rows),
            "low": float(interval.low),
            "high": float(interval.high),
            "audits": len(rows),
            **{
                key: float(np.mean([one[key] for one in each]))
                for key in ("vector", "width", "error", "labels_alone")
            },
        }
    return {"rmse": rmse, "agreement": agreement, "held": held}


def _spread(values: NDArray[np.float64]) -> list[float]:
    """The mean of what is known, and where its middle 95 % ends."""
    known = values[np.isfinite(values)]
    if not len(known):
        return [np.nan] * 3
    return [float(known.mean()), *(float(end) for end in np.quantile(known, [0.025, 0.975]))]
