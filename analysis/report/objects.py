"""The report's section on objects: what of the tables it shows, and in which layout. Nothing is computed here."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from analysis.metrics.cooccurrence import ALL, INCLUDED, LEFT_OUT
from analysis.metrics.dependency import GROUPS
from analysis.metrics.registry import definition
from analysis.report import wording_objects
from analysis.report.figures import Drawn, draw_bias_scores, draw_group_objects
from analysis.report.figures.objects import FILLED
from analysis.report.finding import finding
from analysis.report.format import over, reason
from analysis.report.wording_prompts import spoken_words
from analysis.stats.multiplicity import adjust_p_values
from analysis.study import Member, contrasts, indicators
from analysis.tables.objects.claims import DETECTOR, HEDGED, HINT, HOLDS
from analysis.tables.objects.looked_for import PROMPTS_ALONE, prompts_alone
from analysis.tables.objects.wu import OBJECT_SITES
from analysis.tables.registry import OBJECTS, TABLES, read
from analysis.tables.similarities.word_gap import joined_gaps
from probes.config.schema import Config

if TYPE_CHECKING:
    from probes.runs.run import Run

NEEDED = [table.name for table in OBJECTS if table.name != "nouns"]
# what compares no words
OF_ONE = (
    *("objects", "cooccurrence", "figure06_group_objects", "table11_presence", "table12_amounts"),
    "table13_intersection",
)
MAYBE = ("detector_error", "human_check")  # where somebody or something knows better
SCORES = {
    "bias-scores": (ALL, "all objects"),
    "bias-scores-implicitly-guided": ("implicitly_guided", "implicitly guided objects"),
    "bias-scores-implicitly-independent": ("implicitly_independent", "implicitly independent objects"),
}
SHOWN = 15  # differing objects in the table of a contrast
_OBJECTS = definition("cooccurrence")
SIMILARITY = {  # the paper's first
    INCLUDED: replace(_OBJECTS, site=OBJECT_SITES[INCLUDED]),
    LEFT_OUT: replace(
        _OBJECTS,
        site=OBJECT_SITES[LEFT_OUT],
        symbol=f"{_OBJECTS.symbol}, persons left out",
        noun=f"without persons, {_OBJECTS.noun}",
    ),
}
FILLED_CLAIM = (
    "the difference is claimed of all words of each side (scores and counts are of the first): significant {over}, "
    "against the words of each side and behind the detector’s known errors (false discovery rate {rate:g} %)"
)


@dataclass(frozen=True)
class Objects:
    """All that the section is made from; see `read_objects`."""

    tables: dict[str, pd.DataFrame]
    observer: dict
    open: str = ""  # why numbers on what was not looked for are open; empty where none is

    @property
    def engine(self) -> str:
        """Name of what detected the objects."""
        return str(self.observer.get("engine", "unknown"))

    def rows(self, name: str, **chosen: str) -> pd.DataFrame:
        """Rows of a table whose columns hold the values given; a table that is missing has none."""
        table = self.tables[name]
        for column, value in chosen.items():
            table = table[table[column] == value] if column in table else table.iloc[:0]
        return table

    def row(self, name: str, **chosen: str) -> dict | None:
        """The first of `rows` as a dict."""
        rows = self.rows(name, **chosen)
        return rows.iloc[0].to_dict() if len(rows) else None


def read_objects(run: Run) -> Objects | None:
    """Read the tables of the section; None for a run whose images were not observed."""
    if not (run.path / "tables" / "objects.parquet").exists():
        return None
    needed = [name for name in NEEDED if run.config.compares or name in OF_ONE]
    tables = {}
    for name in (*NEEDED, *MAYBE):
        if name in needed or (run.path / "tables" / f"{name}.parquet").exists():
            tables[name] = _in_unit(read(run, name), run.config.unit)
        else:
            tables[name] = pd.DataFrame(columns=list(TABLES[name].columns))
    gaps = joined_gaps(partial(read, run)) if run.config.compares else pd.DataFrame(columns=["metric"])
    tables["gaps"] = gaps[gaps["metric"] == _OBJECTS.metric]
    return Objects(tables, run.meta.get("observer") or {}, PROMPTS_ALONE if prompts_alone(run) else "")


def _in_unit(table: pd.DataFrame, unit: str) -> pd.DataFrame:
    """A table with its reasons and warnings in the terms of the run's unit."""
    texts = [name for name in ("reason", "warnings") if name in table and unit != "prompt"]
    return table.assign(
        **{name: table[name].map(lambda text: reason(text, unit), na_action="ignore") for name in texts}
    )


def draw(objects: Objects, config: Config) -> dict[str, Drawn]:
    """Draw the figures on objects, by name."""
    drawn: list[Drawn | None] = []
    filled = FILLED_CLAIM.format(over=over(config.unit), rate=100 * config.measure.alpha)
    for towards, away in contrasts(config):
        for name, (group, where) in SCORES.items():
            drawn.append(
                draw_bias_scores(
                    scored(objects, (towards, away), group),
                    f"{name}-{towards}-{away}",
                    f"Bias scores of {where}, {away} and {towards}",
                    (away, towards),
                    where,
                    filled + ("" if group == ALL else f", and in this group {FILLED}"),
                    config.unit,
                    config.measure.alpha,
                )
            )
    names = [member.name for member in indicators(config) if not member.control]
    drawn.append(draw_group_objects(objects.tables["figure06_group_objects"], names))
    return {figure.name: figure for figure in drawn if figure is not None}


def scored(objects: Objects, contrast: tuple[str, str], group: str) -> pd.DataFrame:
    """Return the bias scores of a contrast and dependency group with ``p_objects``, 1 where nothing is claimed."""
    towards, away = contrast
    pair = {"first": away, "second": towards}
    tests, claims = objects.rows("object_tests", group=group, **pair), objects.rows("object_claims", **pair)
    holds = claims["claim"] == HOLDS
    if group == ALL:
        tests = claims.assign(p_objects=claims["p_objects"].where(holds, 1.0))
    else:  # of one word against one, by itself no claim
        held = tests["object"].isin(claims.loc[holds, "object"])
        tests = tests.assign(p_objects=tests["p_objects"].where(held, 1.0))
    scores = objects.rows("figure04_bias_scores", group=group, **pair)
    return scores.merge(tests[["object", "p_objects"]], on="object", how="left")


def section(objects: Objects, config: Config, people: Sequence[Member]) -> dict:
    """Return what the template of the section needs."""
    error, check = (objects.tables[name] for name in MAYBE)
    columns = [person.name for person in people if not person.control]
    columns += [f"{towards}-{away}" for towards, away in contrasts(config)]
    table = objects.tables["objects"]
    choices = config.measure.model_dump() | (table.iloc[0].to_dict() if len(table) else {})
    detector = detector_rows(objects, columns)
    return {
        "engine": objects.engine,
        "models": _models(objects.observer),
        "looked_for": wording_objects.looked_for(objects.observer),
        "open": objects.open,
        "counts": objects.observer.get("counts") or {},
        "detector": detector,
        "checked": [row for row in detector if row["quantity"] != "accuracy"],
        "labelled": len(check) > 0,
        "columns": columns,
        "detector_line": wording_objects.detector_line(error, check, objects.engine),
        "contrasts": [of_contrast(objects, pair, config) for pair in contrasts(config)],
        "similarity": _similarity(objects, people, config.reference),
        "chi_square": _chi_square(objects, people, config.measure.alpha),
        "presence": _presence(objects),
        "amounts": _wide(objects.tables["table12_amounts"], "amount", (*GROUPS, "nouns")),
        "intersection": _intersection(objects.tables["table13_intersection"]),
        "groups": GROUPS,
        "independent": objects.row(
            "table11_presence", group="implicitly_independent", indicator=ALL, individuals=INCLUDED
        ),
        **{name: choices[name] for name in ("sigma", "sigma_human", "mask_words", "human_words")},
        "min_count": config.measure.min_count,
        "alpha": config.measure.alpha,
    }


def detector_rows(objects: Objects, columns: Sequence[str]) -> list[dict]:
    """Return error rates of the detector over all objects: a row per truth and quantity, a cell per indicator."""
    error = objects.rows("detector_error", object=ALL)
    check = objects.rows("human_check", object=ALL)
    check = check.assign(truth="labels: " + check["annotator"].astype(str))
    rows = []
    for table, quantities in (
        (error, ("accuracy", "recall", "precision")),
        (check, ("recall", "precision", "kappa")),
    ):
        for truth, own in table.groupby("truth", sort=False):
            for quantity in quantities:
                some = own[own["quantity"] == quantity]
                if len(some):
                    cells = {row["indicator"]: row for row in some.to_dict("records")}
                    row = {"truth": str(truth), "quantity": quantity, "all": cells.get(ALL)}
                    rows.append(row | {"cells": [cells.get(name) for name in columns]})
    return rows


def _models(observer: dict) -> str:
    """Detector and segmenter by name, where the record of the run has them."""
    detector, segmenter = (str(observer.get(name) or "") for name in ("detector", "segmenter"))
    masks = f"masks by {segmenter}" if segmenter and segmenter != detector else ""
    return ", ".join(filter(None, (detector, masks)))


def of_contrast(objects: Objects, contrast: tuple[str, str], config: Config) -> dict:
    """Return what a contrast's part of the section shows; the pair is (second, first), so that 1 leans to the first."""
    (towards, away), alpha = contrast, config.measure.alpha
    words = spoken_words(config, indicators(config))
    counts = (len(words[away]), len(words[towards]))
    pair = (away, towards)
    chosen = {"first": away, "second": towards}
    claims = objects.rows("object_claims", **chosen)
    found = wording_objects.claimed(claims, HOLDS, HEDGED, HINT, DETECTOR)
    either = (f"{away}-{towards}", f"{towards}-{away}")
    whole, paper = (
        next((row for key in either if (row := objects.row(name, **chosen, **{column: key}))), None)
        for name, column, chosen in (
            ("table_tests", "indicators", {"group": ALL, "of": "presence"}),
            ("table07_chi_square", "comparison", {"group": ALL, "individuals": LEFT_OUT}),
        )
    )
    gaps = [
        (objects.row("gaps", site=metric.site, contrast=f"{towards}-{away}"), metric)
        for metric in SIMILARITY.values()
        if not objects.open
    ]
    return {
        "contrast": contrast,
        "pair": pair,
        "words": counts,
        "opening": wording_objects.objects_opening(claims, pair, words=counts, unit=config.unit, alpha=alpha),
        "rows": found.head(SHOWN).to_dict("records"),
        "hints": bool((found["claim"] == HINT).any()),
        "more": max(0, len(found) - SHOWN),
        "whole": whole,
        "whole_sentence": wording_objects.table_sentence(
            whole,
            pair,
            checked=any(len(objects.tables[name]) for name in MAYBE),
            held=bool((claims["claim"] == HOLDS).any()),
            alpha=alpha,
        ),
        "paper": paper,
        "paper_sentence": wording_objects.chi_square_sentence(paper, alpha),
        "findings": [
            finding(gap, metric, config.reference, contrast, alpha=alpha) for gap, metric in gaps if gap
        ],
        "figures": [f"{name}-{towards}-{away}" for name in SCORES],
    }


def _similarity(objects: Objects, people: Sequence[Member], reference: str) -> list[dict]:
    """Table 6: the reference with every other indicator; a cell with persons, as the paper has it, and one without."""
    rows = objects.tables["table06_similarity"].to_dict("records")
    cells = {(row["individuals"], frozenset((row["first"], row["second"]))): row for row in rows}
    pairs = {person.name: frozenset((reference, person.name)) for person in people}
    return [
        {"pair": f"{reference}, {name}", "cells": [cells.get((which, pair)) for which in SIMILARITY]}
        for name, pair in pairs.items()
        if name != reference and (INCLUDED, pair) in cells
    ]


def _chi_square(objects: Objects, people: Sequence[Member], alpha: float) -> list[dict]:
    """Tables 7 to 9: one row per comparison, one cell per group, with the label-swap test beneath.

    A cell is of one word against one, and so a hint at most (`hints`).
    """
    table = objects.rows("table07_chi_square", individuals=LEFT_OUT)
    tests = objects.rows("table_tests", of="detections")
    swaps = {(row["group"], row["indicators"]): row for row in tests.to_dict("records")}
    marked = hints(tests, set(table["comparison"]), people, alpha)
    rows = []
    for comparison, own in table.groupby("comparison", sort=False):
        cells = {row["group"]: row for row in own.to_dict("records")}
        ordered = [
            (cells.get(group), swaps.get((group, comparison)), (group, comparison) in marked)
            for group in (ALL, *GROUPS)
        ]
        rows.append({"name": str(comparison).replace("-", ", "), "cells": ordered})
    return rows


def hints(
    tests: pd.DataFrame, shown: Collection[str], people: Sequence[Member], alpha: float
) -> set[tuple[str, str]]:
    """Return the cells, by group and comparison, in which words differ by more than synonyms do.

    Their label-swap test is below `alpha` after adjustment over all cells (Holm), and Cramér's V less what the swaps
    give is larger than in any comparison of the reference with a word of its own meaning in the group. Without such a
    comparison nothing is marked: any two words differ a little at every prompt, also those of one meaning.
    """
    reference = {member.name for member in people if not member.control}
    alike = {
        "-".join(pair)
        for member in people
        if member.control in reference
        for pair in ((member.control, member.name), (member.name, member.control))
    }
    own = tests.assign(excess=tests["cramers_v"] - tests["cramers_v_floor"])
    most = own[own["indicators"].isin(alike)].groupby("group")["excess"].max()
    cells = own[own["indicators"].isin(list(shown))]
    below = adjust_p_values(cells["p_value"].to_numpy(float), method="holm") < alpha
    beyond = cells["excess"] > cells["group"].map(most).fillna(math.inf)
    chosen = cells[below & beyond]
    return set(zip(chosen["group"], chosen["indicators"]))


def _wide(table: pd.DataFrame, column: str, groups: Sequence[str]) -> list[dict]:
    """One row per indicator, one cell per group."""
    cells = table.set_index(["indicator", "group"])[column].to_dict()
    return [
        {
            "name": "all images" if name == ALL else name,
            "cells": [cells.get((name, group)) for group in groups],
        }
        for name in dict.fromkeys(table["indicator"])
    ]


def _presence(objects: Objects) -> list[dict]:
    """All images with individuals, as in the paper, then all and each indicator's without."""
    whole = objects.rows("table11_presence", individuals=INCLUDED, indicator=ALL)
    without = _wide(objects.rows("table11_presence", individuals=LEFT_OUT), "percent_of_images", GROUPS)
    without[0]["name"] += ", individuals left out"
    return _wide(whole, "percent_of_images", GROUPS) + without


def _intersection(table: pd.DataFrame) -> list[dict]:
    cells = table.set_index(["over_group", "group"])["percent"].to_dict()
    kinds = list(dict.fromkeys(table["over_group"]))
    return [
        {"name": f"over {over.replace('_', ' ')}", "cells": [cells.get((over, group)) for group in kinds]}
        for over in kinds
    ]
