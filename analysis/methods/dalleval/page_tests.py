"""Tests of all that the report's page on professions says: a page without a finding is to say nothing.

Five questions are asked: do professions deviate from half and half, do they differ from one another in gender, in
tone, in any attribute, and do words differ in any of these? Their p-values are adjusted for one another (Hommel 1988),
and only where a question is answered with yes are single professions, attributes or differences between words named,
each adjusted among its own (`analysis.stats.group_swaps`, `analysis.stats.multiplicity`, `analysis.stats.permutation`).
Where neither professions nor words differ in anything the page errs with the probability of one test.
"""

from __future__ import annotations

import pandas as pd

from analysis.methods.dalleval.scores import GENDER, TONE, kind_of
from analysis.stats.multiplicity import adjust_p_values
from probes.prompts.diagnostic import ALL


def first_sources(table: pd.DataFrame) -> dict[str, str]:
    """Return the source that a table has first for each of ``gender``, ``tone`` and ``attributes``."""
    return table["source"].groupby(table["question"].map(kind_of)).first().to_dict()


def of_first(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a table by the first source of ``gender``, of ``tone`` and of ``attributes``."""
    return table[table["source"] == table["question"].map(kind_of).map(first_sources(table))]


def said_rows(table: pd.DataFrame, reference: str) -> pd.DataFrame:
    """Return the rows of ``dalleval_mad`` or ``dalleval_between`` on gender and tone of which a sentence speaks."""
    first = of_first(table)
    gender, tone = (first[first["question"] == kind] for kind in (GENDER, TONE))
    together = tone["indicator"] == ALL
    tone = tone[together if together.any() else tone["indicator"] == reference]
    return pd.concat([gender[gender["indicator"] == reference], tone])


def said_attributes(between: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of ``dalleval_between`` on attributes of which a sentence speaks."""
    own = of_first(between)
    own = own[~own["question"].isin([GENDER, TONE])]
    return own[own["p_value"].notna() & (own["indicator"] != ALL)]


def said_words(words: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of ``dalleval_words`` that the page shows: over all professions, of the first readers."""
    first = of_first(words)
    return first[(first["profession"] == ALL) & (first["kind"] != "control")]


def adjust_page(
    mad: pd.DataFrame, between: pd.DataFrame, words: pd.DataFrame, reference: str, alpha: float
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return the tables with the ``p_adjusted`` of rows that the page speaks of adjusted over all that it says.

    Where a question is answered with no, no single profession is ``different``.
    """
    mad, between, words = (table.copy() for table in (mad, between, words))
    tests = []
    if len(mad):
        deviations = said_rows(mad, reference)
        tests.append((mad, deviations.loc[deviations["question"] == GENDER, "p_value"]))
    if len(between):
        differences = said_rows(between, reference)["p_adjusted"]
        tests += [(between, differences[[row]]) for row in differences.index]
        tests.append((between, said_attributes(between)["p_adjusted"]))
    if len(words):
        tests.append((words, said_words(words)["p_adjusted"]))
    tests = [(table, own) for table, own in tests if own.notna().any()]
    adjusted = adjust_p_values([own.min() for _, own in tests], method="hommel")
    for (table, own), least in zip(tests, adjusted, strict=True):
        table.loc[own.index, "p_adjusted"] = own.clip(lower=least)
    for table in (mad, between):
        if len(table):
            table["different"] = table["different"].mask(table["p_adjusted"] >= alpha, 0)
    return mad, between, words


def even_refuted(mad: pd.DataFrame, reference: str, alpha: float) -> bool:
    """Tell whether the page says that professions deviate from half and half; only then single ones are named."""
    rows = said_rows(mad, reference)
    return bool((rows.loc[rows["question"] == GENDER, "p_adjusted"] < alpha).any())


def gender_rows(table: pd.DataFrame, indicator: str) -> pd.DataFrame:
    """Return the averages of gender of an indicator by profession, by the first reader, the lowest first."""
    own = of_first(table).query("question == @GENDER and indicator == @indicator and profession != @ALL")
    return own.sort_values("average", kind="stable", na_position="first")
