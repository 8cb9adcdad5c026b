"""The report's section on objects: what of the tables it shows, and in which layout. Nothing is computed here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from analysis.metrics.cooccurrence import ALL, INCLUDED, LEFT_OUT
from analysis.metrics.registry import definition
from analysis.report.environment import sentence
from analysis.report.figures.objects import FILLED, draw_bias_scores, draw_group_objects
from analysis.report.figures.style import Drawn
from analysis.report.finding import finding
from analysis.report.format import over
from analysis.report.wording_objects import claimed, looked_for, objects_opening, told
from analysis.report.wording_prompts import spoken_words
from analysis.study import contrasts, indicators
from analysis.tables.objects.claims import DETECTOR, HEDGED, HINT, HOLDS
from analysis.tables.objects.detector_error import CHECKER
from analysis.tables.objects.left_open import PROMPTS_ALONE, prompts_alone
from analysis.tables.objects.wu import OBJECT_SITES
from analysis.tables.registry import TABLES, read
from analysis.tables.similarities.word_gap import joined_gaps
from probes.config.schema import Config

if TYPE_CHECKING:
    from probes.runs.run import Run

SCORES = {
    "bias-scores": (ALL, "all objects"),
    "bias-scores-implicitly-guided": ("implicitly_guided", "implicitly guided objects"),
    "bias-scores-implicitly-independent": ("implicitly_independent", "implicitly independent objects"),
}
READ = (
    *(
        "objects",
        "object_tests",
        "object_claims",
        "table_tests",
        "table07_chi_square",
        "figure04_bias_scores",
    ),
    *("figure06_group_objects", "table11_presence", "detector_error", "human_check"),
)
QUANTITIES = ("recall", "precision", "kappa")  # of a detector
SHOWN = 15  # differing objects in the table of a contrast
METRIC = replace(definition("cooccurrence"), site=OBJECT_SITES[INCLUDED])  # of all objects, as in the paper
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
    names = {*run.tables()}
    if "objects" not in names:
        return None
    tables, unit = {}, run.config.unit
    for name in READ:
        table = read(run, name) if name in names else pd.DataFrame(columns=list(TABLES[name].names))
        texts = [column for column in ("reason", "warnings") if column in table and unit != "prompt"]
        in_unit = {column: table[column].str.replace("every prompt", f"every {unit}") for column in texts}
        tables[name] = table.assign(**in_unit)
    gaps = joined_gaps(partial(read, run)) if run.config.compares else pd.DataFrame(columns=["metric"])
    tables["gaps"] = gaps[gaps["metric"] == METRIC.metric]
    return Objects(tables, run.meta.get("observer") or {}, PROMPTS_ALONE if prompts_alone(run) else "")


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


def section(objects: Objects, config: Config) -> dict:
    """Return what the template of the section needs."""
    error, check = (
        objects.rows(name, object=ALL, indicator=ALL) for name in ("detector_error", "human_check")
    )
    check = check.assign(truth="labels: " + check["annotator"].astype(str))
    known = pd.concat([error, check])
    whom = "the toyworld checker" if len(error) else "people" if len(check) else ""
    table = objects.tables["objects"]
    choices = config.measure.model_dump() | (table.iloc[0].to_dict() if len(table) else {})
    presence = {"group": "implicitly_independent", "indicator": ALL, "individuals": INCLUDED}
    return {
        "engine": objects.engine,
        "models": _models(objects.observer),
        "looked_for": looked_for(objects.observer),
        "open": objects.open,
        "counts": objects.observer.get("counts") or {},
        "detector": known[known["quantity"].isin(QUANTITIES)].to_dict("records"),
        "detector_known": objects.engine == CHECKER or len(known) > 0,
        "detector_line": sentence("objects", "detector", objects.engine == CHECKER, whom, objects.engine),
        "contrasts": [of_contrast(objects, pair, config) for pair in contrasts(config)],
        "independent": objects.row("table11_presence", **presence),
        **{name: choices[name] for name in ("sigma", "sigma_human", "mask_words", "human_words")},
        "min_count": config.measure.min_count,
    }


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
    found = claimed(claims, HOLDS, HEDGED, HINT, DETECTOR)
    checked = objects.engine == CHECKER or any(
        len(objects.tables[name]) for name in ("detector_error", "human_check")
    )
    held = bool((claims["claim"] == HOLDS).any())
    either = (f"{away}-{towards}", f"{towards}-{away}")
    whole, paper = (
        next((row for key in either if (row := objects.row(name, **chosen, **{column: key}))), None)
        for name, column, chosen in (
            ("table_tests", "indicators", {"group": ALL, "of": "presence"}),
            ("table07_chi_square", "comparison", {"group": ALL, "individuals": LEFT_OUT}),
        )
    )
    gap = None if objects.open else objects.row("gaps", site=METRIC.site, contrast=f"{towards}-{away}")
    return {
        "contrast": contrast,
        "pair": pair,
        "words": counts,
        "opening": objects_opening(claims, pair, words=counts, unit=config.unit, alpha=alpha),
        "rows": found.head(SHOWN).to_dict("records"),
        "hints": bool((found["claim"] == HINT).any()),
        "more": max(0, len(found) - SHOWN),
        "whole": whole,
        "whole_sentence": sentence("objects", "whole", whole, pair, told(whole, alpha), checked, held),
        "paper": paper,
        "paper_sentence": sentence("objects", "chi_square", paper, told(paper, alpha)),
        "findings": [finding(gap, METRIC, config.reference, contrast, alpha=alpha)] if gap else [],
        "figures": [f"{name}-{towards}-{away}" for name in SCORES],
    }
