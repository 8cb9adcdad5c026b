"""Tables of an audit of gender presentation differences (Zhang et al. 2023): frequencies, vectors, scores, agreement.

An audit is read in two settings and by several sources (labels of a checker or of people, detections, estimates by
CLIP); every table has a column for each. What differs by chance is in `analysis.methods.gep.inference`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.gep import scores
from analysis.methods.gep.evaluation import agreements, label_ceiling
from analysis.methods.gep.inference import infer
from analysis.methods.gep.scores import Audit, like
from analysis.methods.gep.sources import POWERED, first_source
from analysis.stats.auc import roc_auc
from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.resampling import resample_counts
from analysis.study import Comparison
from probes.config.schema import Measure

UNDEFINED = 0.05  # share of resamples without a value with which an interval is still given
LABELS = ("checker", "human")  # sources that say whether an attribute is there; the others estimate it


def pairs(comparison: Comparison) -> list[tuple[str, str, str]]:
    """Return the pairs of indicators that are compared, (first, second, kind): contrast, reference or control.

    Of two words, one of which has to be the reference, that is a contrast.
    """
    referring = [comparison.reference in pair for pair in comparison.leaning]
    kinds = [
        (*pair, "reference" if refers and not all(referring) else "contrast")
        for pair, refers in zip(comparison.leaning, referring)
    ]
    meaning = {name: comparison.controls.get(name, name) for name in comparison.names}
    return kinds + [
        (*pair, "control") for pair in combinations(meaning, 2) if len({meaning[name] for name in pair}) == 1
    ]


def frequency_table(audits: Iterable[Audit]) -> pd.DataFrame:
    """Return the frequency of each attribute, or the mean of an estimate, by indicator (Eq. 1; Tables 11, 12)."""
    rows = _values(audits)
    rows = rows.assign(read=rows["context"].where(rows["value"].notna()))
    groups = rows.groupby(["setting", "source", "indicator", "attribute"], sort=False)
    return groups.agg(
        frequency=("value", "mean"), n_images=("value", "count"), n_contexts=("read", "nunique")
    ).reset_index()


def inferred_tables(
    audits: Iterable[Audit], compared: Sequence[tuple[str, str, str]], measure: Measure
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the GEP vectors (Eq. 2; Tables 13, 14) and their scores (Tables 3, 6) with intervals and tests."""
    vectors, rows = [], []
    for one, about in _compared(audits, compared):
        vector, score = infer(one, about["first"], about["second"], measure)
        about |= {"level": measure.level}
        vectors.append(vector.assign(**about))
        rows.append(score | about)
    return pd.concat([pd.DataFrame(), *vectors], ignore_index=True), pd.DataFrame(rows)


def adjust_page(vector: pd.DataFrame, score: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return both tables with ``p_adjusted`` over what the page says; NaN in scores of which it says nothing.

    A sentence asks of each setting and contrast whether attributes differ by more than chance gives. These p-values are
    adjusted for one another (Holm 1979), and an attribute differs only where its setting and contrast does.
    """
    if score.empty:  # nobody read images of both words
        return vector, score
    asked = ["setting", "first", "second"]
    source = first_source(score)
    said, of_vector = (
        (table["source"] == source) & (table["kind"] == "contrast") for table in (score, vector)
    )
    score = score.assign(p_adjusted=adjust_p_values(score["p_value"].where(said), method="holm"))
    whole = vector[asked].merge(score[said], on=asked, how="left")["p_adjusted"].to_numpy(float)
    own = vector["p_adjusted"].astype(float)
    return vector.assign(p_adjusted=own.where(~of_vector, np.maximum(own, whole))), score


def context_table(audits: Iterable[Audit], compared: Sequence[tuple[str, str, str]]) -> pd.DataFrame:
    """Return the score of every context apart (Table 15); its floor is far above that of all contexts together."""
    frames = []
    for one, about in _compared(audits, compared):
        each = scores.by_context(one, about["first"], about["second"])
        columns = {"score": scores.score(each), "n_attributes": (~np.isnan(each)).sum(axis=1)}
        frames.append(pd.DataFrame({**about, "context": one.contexts, **columns}))
    return pd.concat([pd.DataFrame(), *frames], ignore_index=True)


def agreement_table(
    audits: Sequence[Audit], compared: Sequence[tuple[str, str, str]], measure: Measure
) -> pd.DataFrame:
    """Return how the vector of every estimate follows that of labels (Tables 4, 19), with intervals over contexts.

    Kendall's tau-b, Matthews' correlation of signs (0 counted as positive, as in the paper) and Pearson's correlation
    over attributes. Intervals are percentiles of resampled contexts, of both vectors at once: the paper has none.
    `POWERED` is compared with the checker alone: it is made of labels, and of people's there are no more than it took.
    """
    rows = []
    contrasts = [pair for pair in compared if pair[2] == "contrast"]
    for labels, about in _compared((one for one in audits if one.source in LABELS), contrasts):
        words, by = (about["first"], about["second"]), about.pop("source")
        for estimate in audits:
            known = estimate.source != POWERED or by == "checker"
            if estimate.setting != labels.setting or estimate.source == by or not known:
                continue
            truth = like(labels, estimate)
            counts = np.ones((1, len(truth.contexts)))
            if len(truth.contexts) > 1:
                counts = np.vstack([counts, resample_counts(counts.size, measure.bootstrap, measure.seed)])
            *values, n = agreements(*(_vectors(one, words, counts) for one in (estimate, truth)))
            ceiling = label_ceiling(truth, estimate, *words, seed=measure.seed)
            about |= {"source": estimate.source, "labels": by, "n": n[0], "level": measure.level}
            about["n_contexts"] = int((~np.isnan(truth.values)).any(axis=(1, 2, 3)).sum())
            drawn = dict(zip(("tau", "mcc", "pearson"), values))
            new = with_percentiles(drawn, about, measure.level, "too few contexts, or no difference to order")
            rows += [row | {"ceiling": ceiling if row["measure"] == "tau" else np.nan} for row in new]
    return pd.DataFrame(rows)


def with_percentiles(
    drawn: Mapping[str, NDArray[np.float64]], about: Mapping[str, Any], level: float, reason: str
) -> list[dict[str, Any]]:
    """Return a row a measure: its first value, and percentiles of the others, resampled; else the reason."""
    rows, ends = [], [(1 - level) / 2, (1 + level) / 2]
    for name, values in drawn.items():
        row = {**about, "measure": name, "value": values[0], "low": np.nan, "high": np.nan, "reason": reason}
        if len(values) > 1 and np.isnan(values[1:]).mean() <= UNDEFINED:
            row["low"], row["high"] = np.nanquantile(values[1:], ends)
            row["reason"] = ""
        rows.append(row)
    return rows


def _vectors(one: Audit, words: tuple[str, str], counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """The vectors where each context counts so often, shape (n_draws, n_attributes)."""
    values = one.of(*words)
    sums, n = np.nansum(values, axis=2), (~np.isnan(values)).sum(axis=2)
    with np.errstate(invalid="ignore", divide="ignore"):
        first, second = ((counts @ sums[:, word]) / (counts @ n[:, word]) for word in (0, 1))
    return first - second


def auc_table(audits: Iterable[Audit]) -> pd.DataFrame:
    """Return the area under the ROC curve of every estimate by attribute, over both settings (Tables 7, 16)."""
    rows = _values(one for one in audits if one.source != POWERED).dropna(subset="value")
    labels = rows[rows["source"].isin(LABELS)].rename(columns={"source": "labels", "value": "truth"})
    both = rows.merge(labels, on=["setting", "context", "indicator", "image", "attribute"])
    both = both[both["source"] != both["labels"]].assign(there=lambda own: own["truth"] > 0.5)
    if both.empty:
        return both
    groups = both.groupby(["source", "labels", "attribute"], sort=False)
    areas = groups[["value", "truth"]].apply(lambda own: roc_auc(own["value"], own["truth"]))
    with_it, images = groups["there"].sum(), groups.size()
    return pd.DataFrame({"auc": areas, "n_with": with_it, "n_without": images - with_it}).reset_index()


def _values(audits: Iterable[Audit]) -> pd.DataFrame:
    """What audits read, a row an image and attribute: NaN where nothing was read."""
    frames = []
    for one in audits:
        axes = {"context": one.contexts, "indicator": one.indicators}
        axes |= {"image": range(one.values.shape[2]), "attribute": one.attributes}
        index = pd.MultiIndex.from_product(axes.values(), names=axes)
        frame = pd.DataFrame({"value": one.values.ravel()}, index).reset_index()
        frames.append(frame.assign(setting=one.setting, source=one.source))
    return pd.concat(frames, ignore_index=True)


def _compared(
    audits: Iterable[Audit], compared: Sequence[tuple[str, str, str]]
) -> Iterator[tuple[Audit, dict[str, Any]]]:
    """Every audit with each pair of which it has both words, and what a row says of these."""
    for one in audits:
        for first, second, kind in compared:
            if {first, second} <= {*one.indicators}:
                about = {"setting": one.setting, "source": one.source}
                yield one, about | {"first": first, "second": second, "kind": kind}
