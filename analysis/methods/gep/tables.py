"""Tables of an audit of gender presentation differences (Zhang et al. 2023): frequencies, vectors, scores, agreement.

An audit is read in two settings and by several sources (labels of a checker or of people, detections, estimates by
CLIP); every table has a column for each. Frequencies are means over all images that were read; the unit is the context,
since both words are drawn in each, and its images share it (`analysis.methods.gep.inference` for the exceptions).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.gep import scores
from analysis.methods.gep.evaluation import agreements, label_ceiling
from analysis.methods.gep.inference import infer
from analysis.methods.gep.powered import POWERED
from analysis.methods.gep.scores import Audit, like
from analysis.stats.auc import roc_auc
from analysis.stats.resampling import resample_counts
from analysis.study import Comparison
from probes.config.schema import Measure

LABELS = ("checker", "human")  # sources that say whether an attribute is there; the others estimate it
KEY = ("setting", "source")
PAIR = ("first", "second", "kind")
FREQUENCY_COLUMNS = (*KEY, "indicator", "attribute", "frequency", "n_images", "n_contexts")
VECTOR_COLUMNS = (
    *(*KEY, *PAIR, "attribute", "difference", "low", "high", "p_value", "p_adjusted"),
    *("unit", "n_units", "n_contexts", "level", "reason"),
)
SCORE_COLUMNS = (
    *(*KEY, *PAIR, "score", "floor", "p_value", "p_adjusted", "p_smallest"),
    *("debiased", "low", "high", "n_attributes", "unit", "n_contexts", "level", "reason"),
)
CONTEXT_COLUMNS = (*KEY, *PAIR, "context", "score", "n_attributes")
AGREEMENT_COLUMNS = (
    *("setting", "source", "labels", "first", "second", "measure", "value", "low", "high", "ceiling"),
    *("n", "n_contexts", "level", "reason"),
)
AUC_COLUMNS = ("source", "labels", "attribute", "auc", "n_with", "n_without")
MEASURES = ("tau", "mcc", "mcc_nonzero", "pearson")


def pairs(comparison: Comparison) -> list[tuple[str, str, str]]:
    """Return the pairs of indicators that are compared: (first, second, kind).

    ``contrast``: the words that are compared with each other (with the default feminine less masculine, as in the
    paper); ``reference``: the neutral word with each; ``control``: two words of the same meaning, whose score is what
    the choice of a word makes. Without a contrast (of two words one is the reference) the reference is compared with
    each as one.
    """
    kinds = [
        (*pair, "reference" if comparison.reference in pair else "contrast") for pair in comparison.leaning
    ]
    meaning: dict[str, list[str]] = {}
    for name in comparison.names:
        meaning.setdefault(comparison.controls.get(name, name), []).append(name)
    if not any(kind == "contrast" for *_, kind in kinds):  # two words, one of which has to be the reference
        kinds = [(first, second, "contrast") for first, second, _ in kinds]
    same = [(*pair, "control") for names in meaning.values() for pair in combinations(names, 2)]
    return kinds + same


def frequency_table(audits: Iterable[Audit]) -> pd.DataFrame:
    """Return the frequency of each attribute, or the mean of an estimate, by indicator (Eq. 1; Tables 11, 12)."""
    rows = []
    for one in audits:
        frequency = scores.frequencies(one)
        images = (~np.isnan(one.values)).sum(axis=(0, 2))
        contexts = (~np.isnan(one.values)).any(axis=2).sum(axis=0)
        rows += [
            (one.setting, one.source, word, name, frequency[i, a], images[i, a], contexts[i, a])
            for i, word in enumerate(one.indicators)
            for a, name in enumerate(one.attributes)
        ]
    return pd.DataFrame(rows, columns=list(FREQUENCY_COLUMNS))


def inferred_tables(
    audits: Iterable[Audit], compared: Sequence[tuple[str, str, str]], measure: Measure
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the GEP vectors (Eq. 2; Tables 13, 14) and their scores (Tables 3, 6) with intervals and tests.

    Of the vectors ``p_adjusted`` is adjusted over the attributes of a vector (max-T). Of the scores ``score`` is the
    paper's, of the attributes that were read in two units or more; ``debiased`` is less what the errors of the vector
    add to it (`analysis.stats.absolute_mean.inverted_mean`), and its ``low`` inverts the test of ``p_value``: it is 0
    exactly where that is not below 1 - ``level``. What the page says is adjusted over settings and contrasts by
    `analysis.methods.gep.page_tests.adjust_page`.
    """
    vectors, rows = [], []
    for one in audits:
        for pair in _there(one, compared):
            found = infer(one, *pair[:2], measure)
            about = dict(zip((*KEY, *PAIR), (one.setting, one.source, *pair)))
            about |= {"unit": found.unit, "n_contexts": found.n_contexts, "level": measure.level}
            names = ("difference", "low", "high", "p_value", "p_adjusted", "n_units", "reason")
            each = {name: getattr(found, name) for name in names}
            vectors.append(pd.DataFrame(about | {"attribute": one.attributes} | each)[list(VECTOR_COLUMNS)])
            rows.append(
                about
                | {"score": found.score.raw, "debiased": found.score.score, "n_attributes": found.score.n}
                | {"low": found.score.low, "high": found.score.high, "reason": found.score_reason}
                | {"floor": found.floor, "p_value": found.score_p, "p_smallest": found.smallest_p}
            )
    vector = pd.concat(vectors, ignore_index=True) if vectors else pd.DataFrame(columns=list(VECTOR_COLUMNS))
    return vector, pd.DataFrame(rows, columns=list(SCORE_COLUMNS))


def context_table(audits: Iterable[Audit], compared: Sequence[tuple[str, str, str]]) -> pd.DataFrame:
    """Return the score of every context apart (Table 15); its floor is far above that of all contexts together."""
    rows = []
    for one in audits:
        for pair in _there(one, compared):
            each = scores.by_context(one, *pair[:2])
            there = (~np.isnan(each)).sum(axis=1)
            rows += [
                (one.setting, one.source, *pair, context, value, count)
                for context, value, count in zip(one.contexts, scores.score(each), there)
            ]
    return pd.DataFrame(rows, columns=list(CONTEXT_COLUMNS))


def agreement_table(
    audits: Sequence[Audit], compared: Sequence[tuple[str, str, str]], measure: Measure
) -> pd.DataFrame:
    """Return how the vector of every estimate follows that of labels (Tables 4, 19), with intervals over contexts.

    Kendall's tau-b, Matthews' correlation of signs (``mcc``: 0 counted as positive, as in the paper; ``mcc_nonzero``:
    without attributes whose labelled difference is 0) and Pearson's correlation over attributes. Intervals are
    percentiles of resampled contexts, of both vectors at once: the paper has none.
    """
    rows = []
    for labels, estimate in judged(audits):
        for first, second, kind in _there(labels, compared):
            if kind != "contrast":
                continue
            vectors = [scores.vector(one, first, second)[None] for one in (estimate, labels)]
            at_hand, n = _agreements(*vectors)
            drawn = _resampled(estimate, labels, first, second, measure)
            contexts = int((~np.isnan(labels.values)).any(axis=(1, 2, 3)).sum())
            ceiling = label_ceiling(labels, estimate, first, second, seed=measure.seed)
            for name in MEASURES:
                ends = percentiles(drawn[name], measure.level)
                rows.append(
                    (
                        *(labels.setting, estimate.source, labels.source, first, second, name),
                        *(at_hand[name][0], *ends, ceiling if name == "tau" else np.nan),
                        *(n[0], contexts, measure.level),
                        "" if np.isfinite(ends[0]) else "too few contexts, or no difference to order",
                    )
                )
    return pd.DataFrame(rows, columns=list(AGREEMENT_COLUMNS))


def _agreements(
    estimated: NDArray[np.float64], labelled: NDArray[np.float64]
) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.int64]]:
    """Every measure of pairs of vectors, a row each, and how many differences they share."""
    tau, mcc, pearson, n = agreements(estimated, labelled)
    nonzero = agreements(estimated, labelled, zero="left out")[1]
    return dict(zip(MEASURES, (tau, mcc, nonzero, pearson))), n


def _resampled(estimate: Audit, labels: Audit, first: str, second: str, measure: Measure):
    """Agreement of both vectors over contexts drawn again and again."""
    if len(labels.contexts) < 2:
        return dict.fromkeys(MEASURES, np.empty(0))
    counts = resample_counts(len(labels.contexts), measure.bootstrap, measure.seed).astype(float)
    means = []
    for one in (estimate, labels):
        sides = []
        for word in (first, second):
            values = one.values[:, scores.place(one, word)]
            chosen = ~np.isnan(values)
            values = np.where(chosen, values, 0.0).sum(axis=1)
            with np.errstate(invalid="ignore", divide="ignore"):
                sides.append(counts @ values / (counts @ chosen.sum(axis=1)))
        means.append(sides[0] - sides[1])
    return _agreements(*means)[0]


def percentiles(values: NDArray[np.float64], level: float) -> tuple[float, float]:
    """Return the ends of an interval, where nearly all draws have a value; else NaN."""
    known = values[~np.isnan(values)]
    if len(known) < 0.95 * max(len(values), 1) or not len(known):
        return np.nan, np.nan
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def auc_table(audits: Sequence[Audit]) -> pd.DataFrame:
    """Return the area under the ROC curve of every estimate by attribute, over both settings (Tables 7, 16)."""
    rows = []
    for (source, by), both in by_estimate(audits).items():
        for name in dict.fromkeys(name for labels, _ in both for name in labels.attributes):
            columns = [
                (estimate.values[..., a].ravel(), labels.values[..., a].ravel())
                for labels, estimate in both
                if name in labels.attributes
                for a in (labels.attributes.index(name),)
            ]
            values, truth = (np.concatenate(side) for side in zip(*columns))
            known = ~np.isnan(values)
            there, absent = int((truth[known] > 0.5).sum()), int((truth[known] <= 0.5).sum())
            rows.append((source, by, name, roc_auc(values, truth), there, absent))
    return pd.DataFrame(rows, columns=list(AUC_COLUMNS))


def judged(audits: Sequence[Audit]) -> list[tuple[Audit, Audit]]:
    """Return labels with every other reading of the same setting, the labels laid out as it is.

    `POWERED` is held against the checker alone: it is made of labels, and of people's there are no more than it took.
    """
    return [
        (like(labels, other), other)
        for labels in audits
        if labels.source in LABELS
        for other in audits
        if other.setting == labels.setting and other.source != labels.source
        if other.source != POWERED or labels.source == "checker"
    ]


def by_estimate(audits: Sequence[Audit]) -> dict[tuple[str, str], list[tuple[Audit, Audit]]]:
    """Return `judged` pairs of all settings by estimate and labels; `POWERED` reads no single images."""
    held: dict[tuple[str, str], list[tuple[Audit, Audit]]] = {}
    for labels, estimate in judged(audits):
        if estimate.source != POWERED:
            held.setdefault((estimate.source, labels.source), []).append((labels, estimate))
    return held


def _there(one: Audit, compared: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    return [pair for pair in compared if {*pair[:2]} <= {*one.indicators}]
