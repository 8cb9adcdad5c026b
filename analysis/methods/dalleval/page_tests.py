"""What the report's page on professions says of a run, tested together: a page without a finding is to say nothing.

Five questions are asked: do professions deviate from half and half, do they differ from one another in gender, in
tone, in any attribute, and do words differ in any of these? Their p-values are adjusted for one another (Hommel 1988),
and only where a question is answered with yes are single professions, attributes or differences between words named,
each adjusted among its own (`analysis.stats.group_swaps`, `analysis.stats.multiplicity`, `analysis.stats.permutation`).
Where neither professions nor words differ in anything the page errs with the probability of one test.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis.methods.dalleval.names import first_source, of_first
from analysis.methods.dalleval.scores import ATTRIBUTES, GENDER, TONE, kind_of
from analysis.methods.gep.results import more_than_chance
from analysis.report.format import p_value
from analysis.stats.multiplicity import adjust_p_values
from probes.prompts.diagnostic import ALL


def said_mads(mad: pd.DataFrame, reference: str) -> pd.DataFrame:
    """Return the rows of ``tables/dalleval_mad`` of which a sentence speaks: of gender, then of tone."""
    found = []
    for question, word in ((GENDER, reference), (TONE, ALL)):
        rows = of_first(mad, question)
        found.append(rows[rows["indicator"] == (word if word in set(rows["indicator"]) else reference)])
    return pd.concat(found)


def said_attributes(between: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of ``tables/dalleval_between`` on attributes of which a sentence speaks."""
    if between.empty:
        return between
    own = of_first(between, ATTRIBUTES)
    return own[own["p_adjusted"].notna() & (own["indicator"] != ALL)]


def said_between(between: pd.DataFrame, row: Mapping[str, Any]) -> pd.DataFrame:
    """Return the row of ``tables/dalleval_between`` that belongs to one of ``tables/dalleval_mad``, if there is one."""
    if between.empty or row["reason"] or not row["professions"]:
        return between.head(0)
    keys = ("source", "question", "indicator")
    return between[np.logical_and.reduce([between[key] == row[key] for key in keys])].head(1)


def said_words(words: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of ``tables/dalleval_words`` that the page shows: over all professions, of the first readers."""
    if words.empty:
        return words
    over = words[(words["profession"] == ALL) & (words["kind"] != "control")]
    first = {kind: first_source(words, kind) for kind in (GENDER, TONE, ATTRIBUTES)}
    return over[over["source"] == over["question"].map(kind_of).map(first)]


def attributes_differ(words: pd.DataFrame, pair: tuple[str, str], alpha: float) -> bool:
    """Tell whether the page says that two words differ in an attribute; only then it counts prompts that do."""
    rows = said_words(words)
    if rows.empty:
        return False
    own = rows[
        (rows[["first", "second"]] == pair).all(axis=1) & (rows["question"].map(kind_of) == ATTRIBUTES)
    ]
    return bool((own["p_page"] < alpha).any())


def adjust_page(
    mad: pd.DataFrame, between: pd.DataFrame, words: pd.DataFrame, reference: str
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return the tables with ``p_page``, adjusted over all that the page says; NaN in rows it does not speak of."""
    mad, between, words = (table.assign(p_page=np.nan) for table in (mad, between, words))
    tests = []
    if len(mad):
        for label, row in said_mads(mad, reference).iterrows():
            if row["question"] == GENDER:
                tests.append((mad, mad.loc[[label], "p_value"]))
            tests.append((between, said_between(between, row).get("p_adjusted", pd.Series(dtype=float))))
    if len(between):
        tests.append((between, said_attributes(between)["p_adjusted"]))
    if len(words):
        tests.append((words, said_words(words)["p_adjusted"]))
    tests = [(table, own) for table, own in tests if own.notna().any()]
    adjusted = adjust_p_values([own.min() for _, own in tests], method="hommel")
    for (table, own), least in zip(tests, adjusted, strict=True):
        table.loc[own.index, "p_page"] = own.clip(lower=least)
    return mad, between, words


def page_p_text(row: Mapping[str, Any]) -> str:
    """The p-value of a row of which the page speaks, with the family over which it is adjusted."""
    return f"{p_value(row['p_page'])}, adjusted over this section’s tests"


def even_refuted(mad: pd.DataFrame, reference: str, alpha: float) -> bool:
    """Tell whether the page says that professions deviate from half and half; only then single ones are named."""
    rows = said_mads(mad, reference)
    return any(more_than_chance(row, alpha) for row in rows[rows["question"] == GENDER].to_dict("records"))
