"""A machine reader beside people's labels: what it confuses, by group, and shares that labels of a part set right."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import pandas as pd
from statsmodels.stats.contingency_tables import StratifiedTable

from analysis.methods.audit.design import Design
from analysis.methods.audit.labels import MISSING
from analysis.report.format import p_value
from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.prediction_powered import powered_shares
from analysis.stats.proportions import newcombe_interval, wilson_interval

UNDECIDED = "undecided"
EVERY = "all"
CONFUSIONS = ("by", "group", "label", "reading", "count", "of", "share", "low", "high")


def confusion_table(pictures: pd.DataFrame, design: Design) -> pd.DataFrame:
    """Readings of the machine in pictures of each label, over all and by model and level of every factor.

    Of ``of`` pictures of a group with the label, ``count`` have the reading; Wilson's interval.
    """
    names = [*design.answers, UNDECIDED]
    labelled = pictures[pictures["answer"] != MISSING] if design.reader else pictures.head(0)
    said = labelled[["answer", "reading"]].where(
        labelled[["answer", "reading"]].isin(design.answers), UNDECIDED
    )
    groups = [(EVERY, EVERY, said)] * bool(len(said))
    for by in ("model", *design.factors) if len(said) else ():
        groups += [(by, level, said[labelled[by] == level]) for level in design.levels[by]]
    rows = []
    for by, group, own in groups:
        counts = pd.crosstab(own["answer"], own["reading"])
        for label, line in counts.reindex(index=names, columns=names, fill_value=0).iterrows():
            of = line.sum()
            rows += [(by, group, label, reading, count, of) for reading, count in line.items() if of]
    table = pd.DataFrame(rows, columns=list(CONFUSIONS[:6]))
    share = table["count"].to_numpy(float) / table["of"].to_numpy(float)
    low, high = wilson_interval(share, table["of"].to_numpy(float), design.level)
    return table.assign(share=share, low=low, high=high)


def corrected_table(pictures: pd.DataFrame, design: Design) -> pd.DataFrame:
    """The share of every cell by the machine's readings of all pictures, corrected by the labels of some.

    ``share_reader`` is of the machine alone, ``share_labels`` of the labels alone, ``share`` of both
    (`analysis.stats.prediction_powered`); ``p_labelled`` that the labelled pictures of the model were chosen whatever
    the machine reads.
    """
    keys = ["model", *design.factors]
    groups = dict(iter(pictures.groupby(keys, sort=False))) if design.reader else {}
    order = sorted(groups, key=lambda key: [design.levels[name].index(one) for name, one in zip(keys, key)])
    width = max((len(own) for own in groups.values()), default=0)
    labels, readings = np.full((2, len(order), width, 2), np.nan)
    for place, key in enumerate(order):
        own = groups[key]
        known = (own["answer"] != MISSING).to_numpy()
        readings[place, : len(own)] = _answered(own["reading"], design)
        labels[place, np.flatnonzero(known)] = _answered(own["answer"][known], design)
    found = powered_shares(labels, readings, level=design.level)
    table = pd.DataFrame(order, columns=keys)
    reference = np.array([design.reference[key[1]] for key in order], float)
    ends = found.low - reference, found.high - reference
    for place, key in enumerate(order):
        n = design.reference_n.get(key[1], 0)
        if n and found.effective[place] > 0:
            both = newcombe_interval(
                found.share[place], found.effective[place], reference[place], n, design.level
            )
            ends[0][place], ends[1][place] = both
    p_labelled = {name: chosen_whatever_is_read(own, design) for name, own in pictures.groupby("model")}
    return table.assign(
        pictures=found.pictures,
        labelled=found.labelled,
        share_reader=_share(readings),
        share_labels=_share(labels),
        share=found.share,
        low=found.low,
        high=found.high,
        reference=reference,
        difference=found.share - reference,
        difference_low=ends[0],
        difference_high=ends[1],
        effective=found.effective,
        weight=found.weight,
        p_labelled=table["model"].map(p_labelled).astype(float),
        reason=found.reason,
    )


def _answered(said: pd.Series, design: Design) -> np.ndarray:
    """Whether a picture has the answer that is asked, and whether it is decided; shape (n, 2)."""
    return np.stack([said == design.answer, said.isin(design.answers)], axis=1).astype(float)


def _share(said: np.ndarray) -> np.ndarray:
    hits, decided = np.nansum(said, axis=1).T
    return np.divide(hits, decided, out=np.full(len(hits), np.nan), where=decided > 0)


def chosen_whatever_is_read(pictures: pd.DataFrame, design: Design) -> float:
    """The p-value that whether a picture was labelled is independent of what the machine reads in it.

    Cochran, Mantel and Haenszel's over cells; NaN where all pictures of every cell are labelled, or read alike.
    """
    tables = []
    for _, own in pictures.groupby(list(design.factors), sort=False):
        known, read = own["answer"] != MISSING, own["reading"] == design.answer
        table = np.array([[(a & b).sum() for b in (read, ~read)] for a in (known, ~known)])
        if (table.sum(axis=0) > 0).all() and (table.sum(axis=1) > 0).all():
            tables.append(table)
    if not tables:
        return np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return float(StratifiedTable(tables).test_null_odds(correction=True).pvalue)


def remarks(confusions: pd.DataFrame, corrected: pd.DataFrame, design: Design) -> Iterator[str]:
    """Yield how often the machine says what people say, and where labels were not given at random."""
    own = confusions[(confusions["by"] == EVERY) & (confusions["label"] != UNDECIDED)]
    for label, rows in own.groupby("label", sort=False):
        row = rows.set_index("reading").loc[label]
        yield (
            f"{design.reader} reads {int(row['count'])} of {int(row['of'])} pictures that people read as {label} as"
            f" {label}."
        )
    models = corrected.drop_duplicates("model")
    adjusted = adjust_p_values(models["p_labelled"].to_numpy(float), method="holm")
    for model, value in zip(models["model"], adjusted):
        if value <= design.alpha:
            yield (
                f"{model}: whether a picture is labelled depends on what {design.reader} reads in it"
                f" ({p_value(value)}): labels of pictures that were not chosen at random may leave shares wrong."
            )
