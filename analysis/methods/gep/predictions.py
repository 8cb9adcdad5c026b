"""What each source says of single images, and how far estimates depend on the word (Zhang et al. 2023, figure 7).

An estimate should differ much between images with and without an attribute, and little between images of two words
that both have it. The ratio of the second difference to the first is the paper's (section 6.2, *Improvement Analysis*).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.gep.inference import SHARED, parts
from analysis.methods.gep.readings import placed
from analysis.methods.gep.scores import Audit
from analysis.methods.gep.tables import LABELS, by_estimate
from analysis.stats.absolute_mean import inverted_mean
from analysis.stats.shares import ratio_interval
from probes.config.schema import Measure
from probes.runs.run import Run

PREDICTION_COLUMNS = ("setting", "context", "indicator", "sample_id", "attribute", "source", "value")
RATIO_COLUMNS = (
    *("source", "labels", "first", "second", "attribute", "between", "apart", "ratio", "raw", "low", "high"),
    *("n_first", "n_second", "n_without", "n_contexts", "level", "reason"),
)
FEWEST_CONTEXTS = 3
CROSSED_REASON = "seeds repeat over the contexts"
FEW_REASON = "images with the attribute in fewer than three contexts"


def prediction_table(run: Run, said: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return what each source says of each image, one row per image and attribute (Tables 22 to 24 show some).

    Variants of an estimate are left out. In the explicit setting an image is read for the attribute that its prompt
    names.
    """
    samples = placed(run)
    frames = []
    for source, table in said.items():
        if " " in source:
            continue
        rows = samples.merge(table[table["value"].notna()], on="sample_id")
        rows = rows[(rows["setting"] != "explicit") | (rows["attribute"] == rows["named"])]
        frames.append(rows.assign(source=source))
    if not frames:
        return pd.DataFrame(columns=list(PREDICTION_COLUMNS))
    whole = pd.concat(frames, ignore_index=True).sort_values(["triplet", "seed"], kind="stable")
    return whole[list(PREDICTION_COLUMNS)].reset_index(drop=True)


def ratio_table(
    audits: Sequence[Audit], compared: Sequence[tuple[str, str, str]], measure: Measure
) -> pd.DataFrame:
    """Return how far each estimate depends on the word, beside how far it tells an attribute (figure 7).

    Both settings are taken together as in the paper's Table 7. ``between`` is the mean estimate in images with the
    attribute of ``first`` less that of ``second``; ``apart`` the mean in images of both words with the attribute less
    that without; their ``ratio`` has Fieller's set over contexts (infinite where it has no end). A row without an
    attribute is of all: ``raw``, the mean absolute ratio, as the paper gives it; ``ratio``, less what errors add to it
    (`analysis.stats.absolute_mean.inverted_mean`).
    """
    rows = [
        row
        for about, both in by_estimate(audits).items()
        if " " not in about[0] and about[0] not in LABELS
        for first, second, kind in compared
        if kind == "contrast" and all({first, second} <= {*labels.indicators} for labels, _ in both)
        for row in _rows((*about, first, second), both, measure)
    ]
    return pd.DataFrame(rows, columns=list(RATIO_COLUMNS))


def _rows(about: tuple[str, str, str, str], both: Sequence[tuple[Audit, Audit]], measure: Measure) -> list:
    """The rows of one estimate, labels and pair."""
    names = list(dict.fromkeys(name for labels, _ in both for name in labels.attributes))
    contexts = list(dict.fromkeys(name for labels, _ in both for name in labels.contexts))
    sums, counts = np.zeros((2, len(contexts), 3, len(names)))
    for labels, estimate in both:
        place = np.ix_(
            [contexts.index(name) for name in labels.contexts], [names.index(a) for a in labels.attributes]
        )
        for group, total in enumerate(_groups(labels, estimate, *about[2:])):
            sums[:, group][place] += total[0]
            counts[:, group][place] += total[1]
    with_it = [sums[:, :2].sum(axis=1), counts[:, :2].sum(axis=1)]
    between = _difference(sums[:, :2], counts[:, :2])
    apart = _difference(np.stack([with_it[0], sums[:, 2]], 1), np.stack([with_it[1], counts[:, 2]], 1))
    units = ((counts[:, :2] > 0).any(axis=1)).sum(axis=0)
    reason = np.where(units < FEWEST_CONTEXTS, FEW_REASON, "").astype(object)
    if any(labels.noise == SHARED for labels, _ in both):
        reason[:] = CROSSED_REASON
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = between[0] / apart[0]
    reason[np.isnan(ratio)] = "no image of a word with the attribute, or none without"
    known = np.flatnonzero(reason == "")
    low, high = np.full((2, len(names)), np.nan)
    mean = inverted_mean([], np.zeros((0, 0)))
    if len(known):
        options = {"level": measure.level, "resamples": measure.bootstrap, "seed": measure.seed}
        n = len(contexts)
        effects, totals = (side[0] + n * side[1] for side in (between, apart))
        low[known], high[known] = ratio_interval(effects[:, known], totals[:, known], **options)
        errors = ((between[1] - ratio * apart[1]) / apart[0])[:, known] * np.sqrt(n / (n - 1))
        mean = inverted_mean(ratio[known], errors.T @ errors, freedom=n - 1, level=measure.level)
    sizes = counts.sum(axis=0).astype(int)
    rows = [
        (
            *(*about, name, between[0][a], apart[0][a], ratio[a], np.nan, low[a], high[a]),
            *(*sizes[:, a], int(units[a]), measure.level, reason[a]),
        )
        for a, name in enumerate(names)
    ]
    told = ~np.isnan(ratio)
    raw = float(np.abs(ratio[told]).mean()) if told.any() else np.nan
    left = f"without {len(names) - len(known)} of {len(names)} attributes" if len(known) < len(names) else ""
    whole = (np.nan, np.nan, mean.score, mean.raw if mean.n else raw, mean.low, mean.high)
    return [*rows, (*about, "", *whole, *sizes.sum(axis=1), len(contexts), measure.level, left)]


def _groups(
    labels: Audit, estimate: Audit, first: str, second: str
) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Sums and counts by context and attribute: of the first word's images with it, the second's, and those without."""
    truth, values = labels.of(first, second), estimate.of(first, second)
    known = ~np.isnan(truth) & ~np.isnan(values)
    there = known & (truth > 0.5)
    chosen = there & np.array([True, False])[:, None, None], there & np.array([False, True])[:, None, None]
    return [
        (np.where(one, values, 0.0).sum(axis=(1, 2)), one.sum(axis=(1, 2)).astype(float))
        for one in (*chosen, known & ~there)
    ]


def _difference(
    sums: NDArray[np.float64], counts: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The difference of two means, and what each context adds to its error, shape (n_contexts, n_attributes)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = sums.sum(axis=0) / counts.sum(axis=0)
    return mean[0] - mean[1], np.nan_to_num(parts(sums, counts))
