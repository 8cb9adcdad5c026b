"""The result tables of a run, a row each: its name, its columns, and how the paper shows it.

Whatever writes a table goes through `write`, which holds it against its row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from importlib import import_module
from pkgutil import resolve_name
from typing import Any

import pandas as pd

from analysis.metrics import dependency
from analysis.tables import not_measured, paper, prompts
from analysis.tables.objects.claims import CLAIM_COLUMNS, COUNTS
from analysis.tables.objects.detector_error import (
    CHECK_COLUMNS,
    ERROR_COLUMNS,
)
from analysis.tables.objects.human_answers import HUMAN, OBJECT_LABELS
from analysis.tables.objects.nouns import NOUN_COLUMNS
from analysis.tables.objects.statistics import (
    OBJECT_COLUMNS,
    TABLE_COLUMNS,
)
from analysis.tables.objects.wu import (
    CHI_SQUARE_COLUMNS,
)
from analysis.tables.similarities import headline
from analysis.tables.similarities.gap import DISPARITY_COLUMNS, EQUIVALENCE_COLUMNS, GAP_COLUMNS
from analysis.tables.similarities.pictures import (
    FEATURE_METRICS,
    IMAGE_TABLE,
    OPTIONAL_METRICS,
    image_types,
)
from analysis.tables.similarities.side_shares import SideShares
from analysis.tables.similarities.similarities import with_unit
from analysis.tables.similarities.stored import TIMESTEP_TABLE
from analysis.tables.similarities.word_gap import WORD_COLUMNS
from analysis.tables.spec import ROWS, Column, MethodSpec, TableSpec, described_in, method_specs
from probes.runs.run import Run

COUNT = "count_"  # begins a column of each indicator
SEEN_BY = ("both", "detector_only", "people_only", "neither", "unclear")


_SIMILARITIES = (
    TableSpec(
        IMAGE_TABLE,
        "a triplet, seed and pair: every metric of two pictures",
        tuple(image_types()),
        csv=False,
        optional=(*OPTIONAL_METRICS, *FEATURE_METRICS),
    ),
    TableSpec(
        TIMESTEP_TABLE,
        "a denoising step and its timestep",
        ("step", "timestep"),
    ),
    TableSpec(
        "disparity",
        "a space, site, step, metric and pair: the mean similarity over prompts with its interval",
        DISPARITY_COLUMNS,
        pivots=(paper.DISPARITY, paper.PAIRS, paper.SIMILARITY),
    ),
    TableSpec(
        "gap",
        "a space, site, step, metric and contrast: the gap between the indicators' own words, and its test against 0",
        GAP_COLUMNS,
    ),
    TableSpec(
        "word_gap",
        "a space, site, step, metric and contrast: the gap over all words, and its test against synonyms",
        WORD_COLUMNS,
    ),
    TableSpec(
        "equivalence",
        "a space, site, step, metric and contrast: whether the gap lies within ±δ",
        EQUIVALENCE_COLUMNS,
    ),
    TableSpec(
        "gap_prompts",
        "a headline measure, contrast and triplet (of one prompt: and seed)",
        headline.PROMPT_COLUMNS,
        optional=(headline.SEED,),
    ),
    TableSpec(
        "specifications",
        "a headline measure, contrast and choice: the gap over words with it changed",
        headline.SPECIFICATION_COLUMNS,
    ),
    TableSpec(
        "findings",
        "a contrast and headline measure: what the report says of it",
        (
            *("contrast", "space", "site", "metric", "measure", "primary", "state", "direction", "licence"),
            *(
                "gap",
                "ci_low",
                "ci_high",
                "p_value",
                "word_gap",
                "word_low",
                "word_high",
                "p_control",
                "p_measures",
            ),
            *("delta", "n_prompts", *(f.name for f in fields(SideShares)), "claim"),
        ),
        stage="report",
    ),
)
OBJECTS = (
    TableSpec(
        "nouns",
        "a noun of a prompt",
        NOUN_COLUMNS,
    ),
    TableSpec(
        "objects",
        "a detection, or a noun of which nothing was detected",
        dependency.OBJECT_COLUMNS,
        csv=False,
    ),
    TableSpec(
        "cooccurrence",
        "a dependency group, object and indicator",
        ("group", "object", "human", "indicator", "detections", "images", "n_images", "n_prompts"),
    ),
    TableSpec(
        "object_tests",
        "a dependency group, pair and object: the difference of presence between two words",
        ("group", *OBJECT_COLUMNS),
    ),
    TableSpec(
        "object_claims",
        "a pair and object: whether a difference may be claimed",
        CLAIM_COLUMNS,
    ),
    TableSpec(
        "table_tests",
        "a dependency group and comparison of whole tables",
        ("group", *TABLE_COLUMNS),
    ),
    TableSpec(
        "table07_chi_square",
        "a dependency group and comparison: the paper's chi-square (Tables 7 to 9)",
        CHI_SQUARE_COLUMNS,
        pivots=(paper.CHI_SQUARE,),
    ),
    TableSpec(
        "figure04_bias_scores",
        "a dependency group, pair and object: its bias score (Figures 4, 7 and 8)",
        (
            *("group", "first", "second", "object", "individual", "count_first", "count_second", "kept"),
            *("bias_score", "low", "high", "n_prompts", "n_images", "min_count", "reason"),
            *("top", "top_left_out"),
        ),
        pivots=(paper.SCORES,),
    ),
    TableSpec(
        "figure06_group_objects",
        "a dependency group and rank: one of its most frequent objects (Figure 6)",
        ("group", "rank", "object", "count", f"{COUNT}*"),
        pivots=(paper.FREQUENT,),
    ),
    TableSpec(
        "table11_presence",
        "a dependency group and indicator: the percentage of images that hold it",
        ("individuals", "group", "indicator", "percent_of_images", "images", "n_images", "reason"),
        pivots=(paper.PRESENCE,),
    ),
    TableSpec(
        "table12_amounts",
        "a dependency group (or the nouns) and indicator: distinct objects",
        ("group", "indicator", "amount"),
        optional=("reason",),
        pivots=(paper.AMOUNTS,),
    ),
    TableSpec(
        "table13_intersection",
        "two dependency groups: the objects in both",
        ("over_group", "group", "percent", "common", "amount", "reason"),
        pivots=(paper.INTERSECTION,),
    ),
)
_TRUTH = (
    TableSpec(
        "detector_error",
        "a quantity, object and indicator: recall and precision of the detector",
        ERROR_COLUMNS,
        pivots=(paper.DETECTOR,),
    ),
)
_LABELS = (
    TableSpec(
        "human_check",
        "an annotator, quantity, object and indicator: the detector against people",
        CHECK_COLUMNS,
        pivots=(paper.PEOPLE,),
        stage="",
    ),
    TableSpec(
        "human_nouns",
        "an annotator and a noun of the prompts: who saw it (section 7.3 of Wu et al. 2025)",
        ("annotator", "word", "nouns", *SEEN_BY, "percent_both"),
        stage="",
    ),
    TableSpec(
        "human_counts",
        "a prompt, indicator and object: right and wrong detections by people, weighted",
        ("prompt", "indicator", "object", *COUNTS, "truth"),
        stage="",
    ),
    HUMAN,
    OBJECT_LABELS,
)
_PROMPTS = (
    TableSpec(
        "prompts",
        "a prompt",
        (*prompts.COLUMNS, "*"),
    ),
)
_LACKING = (
    TableSpec(
        "not_measured",
        "a quantity that such a run cannot hold",
        not_measured.COLUMNS,
    ),
)
_GROUPS: dict[str, Sequence[TableSpec]] = {  # by what must be there for them, in words
    "any generated run": _SIMILARITIES,
    "a run whose images were searched for objects": OBJECTS,
    "a run of objects, where something else knows what is in the images": _TRUTH,
    "answers of people, given to `triptych labels`": _LABELS,
    "a run whose prompts have levels, such as a profession or a template": _PROMPTS,
    "a run of images that another program drew, or of one indicator": _LACKING,
}
_OWN = {row.name: row for rows in _GROUPS.values() for row in rows}
PAPER = MethodSpec(tuple(_OWN.values()), words=paper.words)  # what is printed of any run


class _Tables(Mapping[str, TableSpec]):
    """The rows of this file, then those of the methods, which are loaded when a name is looked for among them."""

    def __getitem__(self, name: str) -> TableSpec:
        return _OWN[name] if name in _OWN else _of_methods()[name]

    def __iter__(self) -> Iterator[str]:
        yield from (*_OWN, *_of_methods())

    def __len__(self) -> int:
        return len(_OWN) + len(_of_methods())


def _of_methods() -> dict[str, TableSpec]:
    return {row.name: row for method in method_specs() for row in method.tables}


TABLES: Mapping[str, TableSpec] = _Tables()


def groups() -> dict[str, Sequence[TableSpec]]:
    """Return the tables by what must be there for them, in words."""
    return _GROUPS | {method.needs: method.tables for method in method_specs()}


def columns_of(table: str) -> list[Column]:
    """Return what every column of a table holds, in their order, those of some runs alone at the end."""
    spec, package = TABLES[table], _package(table)
    inline = {one.name: one for one in spec.columns if isinstance(one, Column)}
    rows = described_in(package) if len(inline) < len(spec.columns) else []
    described = {(name, column.name): column for names, column in rows for name in names}
    names = [*spec.names, *(name for name in spec.optional if name not in spec.names)]
    return [inline.get(name) or described.get((table, name)) or described["*", name] for name in names]


def _package(table: str) -> str:
    """The package whose file describes a table: that of its method, or this one."""
    places = [] if table in _OWN else [row.spec for row in import_module(ROWS).METHODS if row.spec]
    names = {own.name: place for place in places for own in resolve_name(place).tables}
    return names[table].partition(":")[0].rpartition(".")[0] if table in names else __package__


def write(run: Run, name: str, frame: pd.DataFrame) -> None:
    """Write a result table of a run, once it is found to be what its row says."""
    row = TABLES.get(name)
    if row is None:
        raise ValueError(f"expected a table of the registry, got {name!r}")
    if not row.fits(list(frame.columns)):
        raise ValueError(f"{name}: expected the columns {', '.join(row.names)}, got {', '.join(frame)}")
    run.write_table(name, with_unit(frame, run.config), csv=row.csv)


def write_method(run: Run, method: MethodSpec, inputs: Any) -> None:
    """Write the tables of a method that have rows, from its `inputs`; none where these are None."""
    for spec in method.tables if inputs is not None else ():
        table = (
            spec.make(inputs) if spec.make else inputs.get(spec.name) if isinstance(inputs, dict) else None
        )
        if table is not None and len(table):
            write(run, spec.name, table[spec.names])


def read(run: Run, name: str) -> pd.DataFrame:
    """Return a result table of a run with the columns that its row names."""
    names = [column for column in TABLES[name].names if not column.endswith("*")]
    texts = {column.name for column in columns_of(name) if column.type == "text"}
    return run.table(name, names, texts & set(names))
