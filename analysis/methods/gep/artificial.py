"""Artificial sets of an audit: groups of its images with known differences, and how estimates follow these.

An audit has as many differences to judge an estimate by as it has attributes. Zhang et al. 2023, appendix C, put groups
of images together whose frequencies differ by known amounts, on the scales of Table 17, and so have hundreds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from analysis.methods.gep.evaluation import artificial_set
from analysis.methods.gep.examples import TYPES, Examples
from analysis.methods.gep.powered import POWERED
from analysis.methods.gep.scores import Audit, like
from analysis.methods.gep.tables import LABELS, MEASURES, percentiles
from analysis.stats.resampling import resample_counts
from probes.config.schema import Config, Measure

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
    labels = [_of_attributes(one, shared) for one in labels]
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


def _of_attributes(one: Audit, names: Sequence[str]) -> Audit:
    columns = [one.attributes.index(name) for name in names]
    return Audit(
        one.values[..., columns], one.contexts, one.indicators, tuple(names), one.setting, one.source
    )


def agreement_of_examples(examples: pd.DataFrame, measure: Measure) -> pd.DataFrame:
    """Return how estimates follow the differences of examples (Tables 5, 18, 19, 21), of several runs by ``model``.

    The measures are those of ``tables/gep_agreement``, and Kendall's tau over pairs of one type
    (`analysis.methods.gep.examples.TYPES`), of which one run has two. Intervals are percentiles over resampled
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
