"""Artificial sets of an audit: groups of its images with known differences, and how estimates follow these.

An audit has as many differences to judge an estimate by as it has attributes. Zhang et al. 2023, appendix C, put groups
of images together whose frequencies differ by known amounts, on the scales of Table 17, and so have hundreds. Examples
of one attribute have one slope of estimate against difference, so that they are no independent draws: what is drawn
again for an interval are attributes, with all of their examples.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from analysis.methods.gep.evaluation import artificial_set
from analysis.methods.gep.powered import POWERED
from analysis.methods.gep.scores import Audit, like
from analysis.methods.gep.tables import LABELS, MEASURES, percentiles
from analysis.stats.resampling import resample_counts
from probes.config.schema import Config, Measure

TYPES = ("SA_SM", "DA_SM", "SA_DM", "DA_DM")  # same or different attribute, same or different model
SET = ("source", "labels", "first", "second")
EXAMPLE_COLUMNS = (*SET, "attribute", "scale", "labelled", "estimated")
AGREEMENT_COLUMNS = (
    *(*SET, "measure", "value", "low", "high", "n_examples", "n_attributes", "level", "reason"),
)


def example_table(
    audits: Sequence[Audit], compared: Iterable[tuple[str, str, str]], config: Config
) -> pd.DataFrame:
    """Return the examples of every contrast and source of labels, one row per example and estimate (appendix C).

    Images of both settings are drawn from, for attributes that were labelled in each. `POWERED` says nothing of single
    images and is left out.
    """
    frames = []
    for by in LABELS:
        labels = [one for one in audits if one.source == by]
        words = set.intersection(*(set(one.indicators) for one in labels)) if labels else set()
        frames += [
            _examples(labels, audits, first, second, config)
            for first, second, kind in compared
            if kind == "contrast" and {first, second} <= words
        ]
    frames = [frame for frame in frames if len(frame)]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=list(EXAMPLE_COLUMNS))


def _examples(
    labels: Sequence[Audit], audits: Sequence[Audit], first: str, second: str, config: Config
) -> pd.DataFrame:
    shared = [name for name in labels[0].attributes if all(name in one.attributes for one in labels)]
    labels = [
        replace(
            one, values=one.values[..., list(map(one.attributes.index, shared))], attributes=tuple(shared)
        )
        for one in labels
    ]
    by = {(one.source, one.setting): one for one in audits}
    sources = [
        name
        for name in dict.fromkeys(one.source for one in audits)
        if name not in (labels[0].source, POWERED) and all((name, one.setting) in by for one in labels)
    ]
    if not sources or not shared:
        return pd.DataFrame(columns=list(EXAMPLE_COLUMNS))
    estimates = {name: [like(by[name, one.setting], one) for one in labels] for name in sources}
    drawn = artificial_set(
        labels, estimates, first, second, examples=config.gep.examples, seed=config.measure.seed
    )
    long = drawn.melt(["attribute", "scale", "labelled"], sources, var_name="source", value_name="estimated")
    long = long.assign(labels=labels[0].source, first=first, second=second)
    return long[list(EXAMPLE_COLUMNS)].astype({"estimated": float})


def agreement_of_examples(examples: pd.DataFrame, measure: Measure) -> pd.DataFrame:
    """Return how estimates follow the differences of examples (Tables 5, 18, 19, 21), of several runs by ``model``.

    The measures are those of ``tables/gep_agreement``, and Kendall's tau over pairs of one type
    (`TYPES`), of which one run has two. Intervals are percentiles over resampled
    attributes, with all of their examples.
    """
    rows = []
    for key, table in examples.groupby(list(SET), sort=False):
        judged = Examples(table if "model" in table else table.assign(model=""))
        count = len(judged.attributes)
        drawn = judged.measures(resample_counts(count, measure.bootstrap, measure.seed)) if count > 1 else {}
        for name, value in judged.measures().items():
            if name not in (*MEASURES, *TYPES) or (name in TYPES[2:] and "model" not in table):
                continue
            low, high = percentiles(drawn.get(name, np.empty(0)), measure.level)
            why = "" if np.isfinite(low) else "too few attributes, or no difference to order"
            rows.append((*key, name, float(value[0]), low, high, judged.n, count, measure.level, why))
    return pd.DataFrame(rows, columns=list(AGREEMENT_COLUMNS))


class Examples:
    """Estimated and labelled differences by attribute and model; examples that lack a number are left out.

    Made from columns ``attribute``, ``model``, ``estimated``, ``labelled``, one row per example.
    """

    def __init__(self, table: pd.DataFrame):
        table = table[table[["estimated", "labelled"]].notna().all(axis=1)]
        codes, names = pd.factorize(table["attribute"])
        self.attributes, self.n = tuple(names), len(table)
        columns = [table[name].to_numpy(float) for name in ("estimated", "labelled")]
        member = np.equal.outer(np.arange(len(names)), codes).astype(float)
        self._concordance = _blocks(columns, member, pd.factorize(table["model"])[0])
        x, y = columns
        self._sums = member @ np.stack([np.ones(self.n), x, y, x * x, y * y, x * y], axis=1)
        self._signs = {
            "mcc": member @ _confusion(x, y, np.full(self.n, True)),
            "mcc_nonzero": member @ _confusion(x, y, y != 0),
        }

    def measures(self, counts: ArrayLike | None = None) -> dict[str, NDArray[np.float64]]:
        """Return the measures of agreement, shape (n_draws,) each, by how often each attribute was drawn (once).

        ``tau``: Kendall's tau-b over all pairs of examples; `TYPES`: over pairs of a type (Table 21); ``mcc``,
        ``mcc_nonzero`` and ``pearson`` as in `analysis.methods.gep.evaluation`. NaN where it is not defined.
        """
        times = np.ones((1, len(self.attributes))) if counts is None else np.asarray(counts, float)
        pairs = {
            name: np.stack([_weighted(block, times, name[0] == "S") for block in blocks])
            for name, blocks in self._concordance.items()
        }
        taus = {name: _tau(both) for name, both in pairs.items()}
        tau = _tau(np.sum(list(pairs.values()), axis=0)) if pairs else np.full(len(times), np.nan)
        signs = {name: _mcc(times @ sums) for name, sums in self._signs.items()}
        return {"tau": tau, **signs, "pearson": _pearson(times @ self._sums), **taus}


def _blocks(
    columns: list[NDArray[np.float64]], member: NDArray[np.float64], models: NDArray[np.intp]
) -> Mapping[str, tuple[NDArray[np.float64], ...]]:
    """By type of pair: concordant less discordant pairs, and those untied on either side, by pair of attributes."""
    first, second = (np.sign(np.subtract.outer(column, column)).astype(np.float32) for column in columns)
    same = np.equal.outer(models, models)
    small = member.astype(np.float32)
    blocks = {}
    for model, chosen in (("SM", same), ("DM", ~same)):
        sums = [
            (small @ np.where(chosen, matrix, np.float32(0)) @ small.T).astype(float)
            for matrix in (first * second, np.abs(first), np.abs(second))
        ]
        blocks[f"SA_{model}"] = tuple(np.diag(one).copy() for one in sums)
        for one in sums:
            np.fill_diagonal(one, 0.0)
        blocks[f"DA_{model}"] = tuple(sums)
    return blocks


def _weighted(block: NDArray[np.float64], times: NDArray[np.float64], same: bool) -> NDArray[np.float64]:
    """Pairs of all draws: within each attribute that is drawn, or between two that are."""
    return times @ block if same else np.einsum("ra,ab,rb->r", times, block, times, optimize=True)


def _tau(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    agree, first, second = sums
    untied = np.sqrt(first) * np.sqrt(second)
    return np.where(untied > 0, np.clip(agree / np.where(untied > 0, untied, 1.0), -1.0, 1.0), np.nan)


def _confusion(
    x: NDArray[np.float64], y: NDArray[np.float64], kept: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return whether an example is kept, positive on either side, and on both; 0 counts as positive."""
    up, true = (x >= 0) & kept, (y >= 0) & kept
    return np.stack([kept, up, true, up & true], axis=1).astype(float)


def _mcc(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Correlation of signs; 0 where a side has one sign alone, as scikit-learn has it."""
    n, up, true, both = sums.T
    size = np.sqrt(up * (n - up)) * np.sqrt(true * (n - true))
    value = np.where(size > 0, (n * both - up * true) / np.where(size > 0, size, 1.0), 0.0)
    return np.where(n > 0, value, np.nan)


def _pearson(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    n, x, y, xx, yy, xy = sums.T
    size = np.sqrt(np.maximum(n * xx - x * x, 0.0)) * np.sqrt(np.maximum(n * yy - y * y, 0.0))
    enough = size > 1e-12 * np.maximum(n, 1) * np.sqrt(np.maximum(xx * yy, 1e-300))
    return np.where(enough, np.clip((n * xy - x * y) / np.where(enough, size, 1.0), -1.0, 1.0), np.nan)
