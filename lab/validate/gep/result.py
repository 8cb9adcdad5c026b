"""Numbers of one benchmark model's audit: scores with floors, vectors, agreement with the checker."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.methods.gep.scores import Audit, frequencies, place
from analysis.methods.gep.tables import inferred_tables
from analysis.observe.features.attribute_audit import clip_name
from analysis.stats.prediction_powered import prediction_powered, score_interval
from lab.validate.gep.agreement import estimate_agreement
from lab.validate.gep.readings import CHECKER, READ, WORDS, readings
from probes.config.schema import Measure
from probes.runs.run import Run

OURS, PREDICTIONS, SHOWN = "ours", "CLS", 20  # images of each word that are labelled where one audit is shown
OF_SCORE = ("score", "floor", "p_value", "debiased", "low", "high")
DIGITS = 4


def audit_result(run: Run) -> dict[str, Any]:
    """Numbers of an observed audit of ``docs/validation/gep_audit.yaml``, rounded to four digits, as JSON takes them.

    By setting ``frequencies`` by the checker, ``score``, ``vector`` and what `lab.validate.gep.agreement` returns.
    """
    read = readings(run)
    result = {
        "steps": run.config.sampler.steps,
        "dtype": run.config.generate.dtype,
        "images": len(run.samples(["sample_id"])),
        "clip": run.meta[f"features/{clip_name(run.config)}"]["checkpoint"],
        "settings": {setting: _setting(read[setting]) for setting in READ},
    }
    return _rounded(result)


def _setting(audits: Mapping[str, Audit]) -> dict[str, Any]:
    compared, measure, each = [(*WORDS, "contrast")], Measure(), list(audits.values())
    vectors, scores = inferred_tables(each, compared, measure)
    checker = audits[CHECKER]
    seen = frequencies(checker)[[place(checker, word) for word in WORDS]]
    return {
        "frequencies": dict(zip(checker.attributes, seen.T.tolist())),
        "score": {row["source"]: {name: row[name] for name in OF_SCORE} for row in scores.to_dict("records")}
        | {OURS: _ours(audits)[0]},
        "vector": {
            source: {row.attribute: [row.difference, row.low, row.high] for row in rows.itertuples()}
            for source, rows in vectors.groupby("source", sort=False)
        }
        | {OURS: _ours(audits)[1]},
        **estimate_agreement(audits),
    }


def _ours(audits: Mapping[str, Audit]) -> tuple[dict[str, float], dict[str, list[float]]]:
    """The prediction-powered score and vector of one audit, with labels of a few images of each word."""
    words = [place(audits[CHECKER], word) for word in WORDS]
    labels, predictions = (
        np.moveaxis(audits[source].values[:, words], 1, 0).reshape(2, -1, len(audits[source].attributes))
        for source in (CHECKER, PREDICTIONS)
    )
    apart = audits[CHECKER].setting == "explicit"
    known = random_labels(labels, SHOWN, np.random.default_rng(0), apart=apart)
    estimate = prediction_powered(known, predictions)
    summary, (low, high) = score_interval(estimate), estimate.interval()
    score = {"score": summary.raw, "debiased": summary.score, "low": summary.low, "high": summary.high}
    ends = np.column_stack([estimate.difference, low, high]).tolist()
    return score, dict(zip(audits[CHECKER].attributes, ends))


def random_labels(
    labels: NDArray[np.float64], n: int, rng: np.random.Generator, *, apart: bool
) -> NDArray[np.float64]:
    """Return the labels of `n` images of each word, NaN elsewhere; shape (2, n_images, n_attributes) as given.

    With `apart` each attribute has images of its own (the explicit setting).
    """
    order = rng.random((*labels.shape[:2], labels.shape[2] if apart else 1)).argsort(axis=1).argsort(axis=1)
    return np.where(order < n, labels, np.nan)


def _rounded(value: Any) -> Any:
    """The same with numbers of four digits after the point, and None for what is not defined."""
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(one) for one in value]
    if isinstance(value, float):
        return round(value, DIGITS) if math.isfinite(value) else None
    return value
