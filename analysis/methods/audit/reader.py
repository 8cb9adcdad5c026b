"""Agreement of annotators; a machine beside them: what it confuses, and shares that labels of a part set right."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import pandas as pd
from statsmodels.stats.contingency_tables import StratifiedTable

from analysis.methods.audit.design import ALL, Design, level_order
from analysis.methods.audit.labels import MISSING
from analysis.report.format import p_value
from analysis.stats.annotators import krippendorff_alpha, no_alpha
from analysis.stats.multiplicity import adjust_p_values
from analysis.stats.prediction_powered import powered_shares
from analysis.stats.proportions import wilson_interval
from analysis.stats.resampling import resample_counts

UNDECIDED = "undecided"
AGREEMENT = ("model", "alpha", "low", "high", "pictures", "annotators", "same", "reason")
CONFUSIONS = ("by", "group", "label", "reading", "count", "of")


def agreement_table(rows: pd.DataFrame, design: Design, resamples: int) -> pd.DataFrame:
    """Krippendorff's alpha with its bootstrap interval over pictures, of all models and of each.

    ``pictures`` are those with two answers or more, ``same`` is the share of these on which all answers are equal. No
    rows where there is one annotator.
    """
    given = rows[rows["label"] != MISSING]
    if given["annotator"].nunique() < 2:
        return pd.DataFrame(columns=list(AGREEMENT))
    models = list(rows["model"].unique())
    table = []
    for model in (ALL, *(models if len(models) > 1 else ())):
        chosen = given if model == ALL else given[given["model"] == model]
        codes = chosen.assign(code=pd.factorize(chosen["label"])[0].astype(float))
        answers = codes.pivot(index="annotator", columns="image", values="code").to_numpy(float)
        answers = answers[:, (~np.isnan(answers)).sum(axis=0) >= 2]
        alpha, low, high = krippendorff_alpha(answers), np.nan, np.nan
        if np.isfinite(alpha):
            counts = resample_counts(answers.shape[1], resamples, design.seed)
            alphas = [krippendorff_alpha(np.repeat(answers, times, axis=1)) for times in counts]
            low, high = np.nanquantile(alphas, [(1 - design.level) / 2, (1 + design.level) / 2])
        size = answers.shape[1]
        same = float((np.nanmin(answers, axis=0) == np.nanmax(answers, axis=0)).mean()) if size else np.nan
        reason = no_alpha(answers) if size else "no picture has two answers"
        table.append((model, alpha, low, high, size, chosen["annotator"].nunique(), same, reason))
    return pd.DataFrame(table, columns=list(AGREEMENT))


def confusion_table(pictures: pd.DataFrame, design: Design) -> pd.DataFrame:
    """Readings of the machine in pictures of each label, over all and by model and level of every factor.

    Of ``of`` pictures of a group with the label, ``count`` have the reading; Wilson's interval.
    """
    labelled = pictures[pictures["answer"] != MISSING] if design.reader else pictures.head(0)
    answers = labelled[["answer", "reading"]]
    answers = answers.where(answers.isin(design.answers), UNDECIDED)
    groups = [(ALL, ALL, answers)]
    for by in ("model", *design.factors):
        groups += [(by, level, answers[labelled[by] == level]) for level in design.levels[by]]
    names, rows = [*design.answers, UNDECIDED], []
    for by, group, pairs in groups:
        counts = pd.crosstab(pairs["answer"], pairs["reading"])
        for label, line in counts.reindex(index=names, columns=names, fill_value=0).iterrows():
            rows += [(by, group, label, reading, n, line.sum()) for reading, n in line.items() if line.sum()]
    table = pd.DataFrame(rows, columns=list(CONFUSIONS))
    n = table["of"].to_numpy(float)
    share = table["count"].to_numpy(float) / n
    low, high = wilson_interval(share, n, design.level)
    return table.assign(share=share, low=low, high=high)


def corrected_table(pictures: pd.DataFrame, design: Design) -> pd.DataFrame:
    """The share of every cell by the machine's readings of all pictures, corrected by the labels of some.

    ``share_reader`` is of the machine alone, ``share_labels`` of the labels alone, ``share`` of both
    (`analysis.stats.prediction_powered`); ``p_labelled`` that the labelled pictures of the model were chosen whatever
    the machine reads.
    """
    keys = ["model", *design.factors]
    groups = dict(iter(pictures.groupby(keys, sort=False))) if design.reader else {}
    order = sorted(groups, key=lambda key: level_order(design, keys, key))
    width = max(map(len, groups.values()), default=0)
    labels, readings = np.full((2, len(order), width, 2), np.nan)
    for place, key in enumerate(order):
        cell = groups[key]
        known = (cell["answer"] != MISSING).to_numpy()
        readings[place, : len(cell)] = _answered(cell["reading"], design)
        labels[place, np.flatnonzero(known)] = _answered(cell["answer"][known], design)
    powered = powered_shares(labels, readings, level=design.level)
    table = pd.DataFrame(order, columns=keys)
    p_labelled = {name: chosen_whatever_is_read(rows, design) for name, rows in pictures.groupby("model")}
    return table.assign(
        **powered[["pictures", "labelled"]],
        share_reader=_share(readings),
        share_labels=_share(labels),
        **powered[["share", "low", "high", "effective", "weight"]],
        p_labelled=table["model"].map(p_labelled).astype(float),
        reason=powered["reason"],
    )


def _answered(answers: pd.Series, design: Design) -> np.ndarray:
    """Whether a picture has the answer that is asked, and whether it is decided; shape (n, 2)."""
    return np.stack([answers == design.answer, answers.isin(design.answers)], axis=1).astype(float)


def _share(answered: np.ndarray) -> np.ndarray:
    hits, decided = np.nansum(answered, axis=1).T
    return np.divide(hits, decided, out=np.full(len(hits), np.nan), where=decided > 0)


def chosen_whatever_is_read(pictures: pd.DataFrame, design: Design) -> float:
    """The p-value that whether a picture was labelled is independent of what the machine reads in it.

    Cochran, Mantel and Haenszel's over cells; NaN where all pictures of every cell are labelled, or read alike.
    """
    groups = pictures.groupby(list(design.factors), sort=False)
    tables = [pd.crosstab(cell["answer"] != MISSING, cell["reading"] == design.answer) for _, cell in groups]
    tables = [table.to_numpy() for table in tables if table.shape == (2, 2)]
    if not tables:
        return np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return float(StratifiedTable(tables).test_null_odds(correction=True).pvalue)


def remarks(confusions: pd.DataFrame, corrected: pd.DataFrame, design: Design) -> Iterator[str]:
    """Yield how often the machine says what people say, and where labels were not given at random."""
    right = confusions[(confusions["by"] == ALL) & (confusions["label"] == confusions["reading"])]
    for row in right[right["label"] != UNDECIDED].itertuples():
        yield f"{design.reader} reads {row.count} of {row.of} pictures that people read as {row.label} as {row.label}."
    models = corrected.drop_duplicates("model")
    adjusted = adjust_p_values(models["p_labelled"].to_numpy(float), method="holm")
    for model, value in zip(models["model"], adjusted):
        if value <= design.alpha:
            yield (
                f"{model}: whether a picture is labelled depends on what {design.reader} reads in it"
                f" ({p_value(value)}): labels of pictures that were not chosen at random may leave shares wrong."
            )
