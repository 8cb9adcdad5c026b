"""The result tables of a run, a row each: its name, what it needs, its columns, and how the paper shows it.

Whatever writes a table goes through `write`, which holds it against its row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields

import pandas as pd

from analysis.metrics import dependency
from analysis.tables import not_measured, prompts
from analysis.tables.method import measured_methods
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
from analysis.tables.similarities import agreement, gap_prompts, specifications
from analysis.tables.similarities.disparity import DISPARITY_COLUMNS
from analysis.tables.similarities.families import with_unit
from analysis.tables.similarities.gap import GAP_COLUMNS
from analysis.tables.similarities.pictures import (
    FEATURE_METRICS,
    IMAGE_TABLE,
    OPTIONAL_METRICS,
    image_types,
)
from analysis.tables.similarities.side_shares import SideShares
from analysis.tables.similarities.stored import TIMESTEP_TABLE
from analysis.tables.table import NEEDS, Latex, Table
from probes.runs.run import Run

COUNT = "count_"  # begins a column of each indicator
SEEN_BY = ("both", "detector_only", "people_only", "neither", "unclear")


_SIMILARITIES = (
    Table(
        IMAGE_TABLE,
        "samples",
        "a triplet, seed and pair: every metric of two pictures, in the column of its name",
        tuple(image_types()),
        csv=False,
        optional=(*OPTIONAL_METRICS, *FEATURE_METRICS),
    ),
    Table(
        TIMESTEP_TABLE,
        "samples",
        "a denoising step and its timestep",
        ("step", "timestep"),
    ),
    Table(
        "disparity",
        "samples",
        "a space, site, step, metric and pair: the mean similarity over prompts with its interval",
        DISPARITY_COLUMNS,
        latex=Latex(
            "table05_disparity",
            "representational-disparity",
            "Representational disparity in {data} on {model}: similarity of each pair, mean over prompts.",
        ),
        latex_alone=Latex(
            "table10_intra_prompt",
            "intra-prompt",
            "Representational disparity on {model}: similarity of each pair, mean over {seeds} of “{prompt}”.",
            "For this prompt alone.",
        ),
        texts=("space", "site", "metric", "pair", "reason", "version"),
    ),
    Table(
        "gap",
        "samples",
        "a space, site, step, metric and contrast: the gap, its tests, and the gap over all words",
        GAP_COLUMNS,
        texts=("space", "site", "metric", "contrast", "delta_source", "reason", "warning", "version"),
    ),
    Table(
        "gap_prompts",
        "samples",
        "a headline measure, contrast and triplet (of one prompt: and seed): its gap and the two similarities",
        gap_prompts.COLUMNS,
        optional=(gap_prompts.SEED,),
        texts=("prompt_id", "contrast", "space", "site", "metric", "measure", "reason", "version"),
    ),
    Table(
        "specifications",
        "samples",
        "a headline measure, contrast and choice: the gap over words with one choice moved",
        specifications.COLUMNS,
        texts=("space", "site", "metric", "contrast", "specification", "version"),
    ),
    Table(
        "agreement",
        "samples",
        "a contrast and two headline measures: the correlation of their gaps over prompts",
        agreement.COLUMNS,
        texts=("contrast", "first", "second", "reason"),
    ),
    Table(
        "findings",
        "samples",
        "a contrast and headline measure: what the report says of it",
        (
            *("contrast", "space", "site", "metric", "measure", "primary", "state", "direction", "licence"),
            *(
                "gap",
                "word_gap",
                "p_control",
                "p_measures",
                "specifications",
                "specified_low",
                "specified_high",
                *(f.name for f in fields(SideShares)),
                "claim",
            ),
        ),
        stage="report",
        texts=("contrast", "space", "site", "metric", "measure", "state", "licence", "claim"),
    ),
)
OBJECTS = (
    Table(
        "nouns",
        "objects",
        "a noun of a prompt: its lemma, its characters and its word map",
        NOUN_COLUMNS,
        texts=("indicator", "word", "lemma", "human_words", "backend"),
    ),
    Table(
        "objects",
        "objects",
        "a detection, or a noun that nothing was detected of: its word, coverage and dependency group",
        dependency.OBJECT_COLUMNS,
        csv=False,
        texts=(
            *("sample_id", "indicator", "label", "lemma", "best_word", "group", "mask_words", "human_words"),
            *("maps", "version", "reason"),
        ),
    ),
    Table(
        "cooccurrence",
        "objects",
        "a dependency group, object and indicator: its detections and the images that hold it",
        ("group", "object", "human", "indicator", "detections", "images", "n_images", "n_prompts"),
        texts=("group", "object", "indicator"),
    ),
    Table(
        "object_tests",
        "objects",
        "a dependency group, pair and object: presence, difference and bias score with intervals and p-values",
        ("group", *OBJECT_COLUMNS),
        texts=("group", "first", "second", "object", "reason"),
    ),
    Table(
        "object_claims",
        "objects",
        "a pair and object: whether a difference may be claimed, over words and behind the detector's errors",
        CLAIM_COLUMNS,
        texts=("first", "second", "object", "claim", "claim_reason"),
    ),
    Table(
        "table_tests",
        "objects",
        "a dependency group and comparison of whole tables: label swaps beside chi-square",
        ("group", *TABLE_COLUMNS),
        texts=("group", "indicators", "of", "reason", "warnings"),
    ),
    Table(
        "table06_similarity",
        "objects",
        "a pair, persons in or left out: the similarity of their objects",
        (
            *("individuals", "first", "second", "value", "ci_low", "ci_high", "n_prompts", "n", "undefined"),
            *("reason", "version"),
        ),
        latex=Latex(
            "table06_similarity",
            "cooccurrence-similarity",
            "Co-occurrence similarity on {model}.",
            "First column: all objects, as in the paper. Second: individuals (person, woman, man …) left out.",
        ),
    ),
    Table(
        "table06_gap",
        "objects",
        "a contrast, persons in or left out: the gap of these similarities, as in `gap`",
        ("individuals", *(name for name in GAP_COLUMNS if name not in ("space", "site", "step"))),
    ),
    Table(
        "table07_chi_square",
        "objects",
        "a dependency group and comparison: the paper's chi-square on pooled detections (Tables 7 to 9)",
        CHI_SQUARE_COLUMNS,
        latex=Latex(
            "table07_chi_square",
            "chi-square",
            "Chi-square test on dependency groups in {data} on {model}.",
            "Individuals left out. Detections are counted as independent, which those of one image and of one"
            " triplet are not: see table_tests.csv for tests that hold, and the warnings in"
            " table07_chi_square.csv.",
        ),
    ),
    Table(
        "figure04_bias_scores",
        "objects",
        "a dependency group, pair and object: its bias score (Figures 4, 7 and 8)",
        (
            *("group", "first", "second", "object", "individual", "count_first", "count_second", "kept"),
            *("bias_score", "low", "high", "n_prompts", "n_images", "min_count", "reason"),
            *("top", "top_left_out"),
        ),
        latex=Latex(
            "figure{number:02d}_bias_scores_{contrast}",
            "",
            "Bias scores of {objects} in {data} on {model}: 1 is an object of {first} prompts only, 0 of"
            " {second} ones.",
            "Individuals left out.",
        ),
    ),
    Table(
        "figure06_group_objects",
        "objects",
        "a dependency group and rank: one of its most frequent objects (Figure 6)",
        ("group", "rank", "object", "count", f"{COUNT}*"),
        latex=Latex(
            "figure06_group_objects",
            "group-objects",
            "Most frequent objects of each dependency group in {data} on {model}.",
            "Individuals left out.",
        ),
    ),
    Table(
        "table11_presence",
        "objects",
        "a dependency group and indicator: the percentage of images that hold it",
        ("individuals", "group", "indicator", "percent_of_images", "images", "n_images", "reason"),
        latex=Latex(
            "table11_presence",
            "group-presence",
            "The proportion of images containing the dependency groups to all the images on {model}, in percent.",
            "Of single indicators, individuals are left out.",
        ),
    ),
    Table(
        "table12_amounts",
        "objects",
        "a dependency group (or the nouns) and indicator: distinct objects",
        ("group", "indicator", "amount"),
        optional=("reason",),
        latex=Latex(
            "table12_amounts",
            "amounts",
            "Amount of individual objects in each dependency group and nouns in prompts on {model}.",
        ),
    ),
    Table(
        "table13_intersection",
        "objects",
        "two dependency groups: the percentage of the objects of one that are in the other too",
        ("over_group", "group", "percent", "common", "amount", "reason"),
        latex=Latex(
            "table13_intersection",
            "group-intersection",
            "Intersection ratio of individual objects among dependency groups and nouns in the prompts of {data}"
            " on {model}, in percent.",
        ),
    ),
)
_COUNTED = ("prompt", "indicator", "object", *COUNTS, "truth")
_CHECKED = (
    Table(
        "detector_error",
        "truth",
        "a quantity, object and indicator: recall and precision of the detector",
        ERROR_COLUMNS,
        texts=("truth", "quantity", "object", "indicator", "reason", "version"),
    ),
    Table(
        "detector_counts",
        "truth",
        "a prompt, indicator and object: right and wrong detections by the checker",
        _COUNTED,
        texts=("indicator", "object", "truth"),
    ),
    Table(
        "human_check",
        "labels",
        "an annotator, quantity, object and indicator: the detector against people",
        CHECK_COLUMNS,
        stage="",
    ),
    Table(
        "human_nouns",
        "labels",
        "an annotator and a noun of the prompts: who saw it, as in section 7.3 of the paper, whose figures stand below",
        ("annotator", "word", "nouns", *SEEN_BY, "percent_both"),
        stage="",
    ),
    Table(
        "human_counts",
        "labels",
        "a prompt, indicator and object: right and wrong detections by people, weighted",
        _COUNTED,
        stage="",
    ),
    Table(
        "prompts",
        "levels",
        "a prompt: its text, and in further columns its levels",
        (*prompts.COLUMNS, "*"),
    ),
    Table(
        "not_measured",
        "images",
        "a quantity that such a run cannot hold, where it would stand, and why it is not there",
        not_measured.COLUMNS,
    ),
)
_OWN = {row.name: row for row in (*_SIMILARITIES, *OBJECTS, *_CHECKED, HUMAN, OBJECT_LABELS)}


class _Tables(Mapping[str, Table]):
    """The rows of this file, then those of the methods, which are loaded when a name is looked for among them."""

    def __getitem__(self, name: str) -> Table:
        return _OWN[name] if name in _OWN else _of_methods()[name]

    def __iter__(self) -> Iterator[str]:
        yield from (*_OWN, *_of_methods())

    def __len__(self) -> int:
        return len(_OWN) + len(_of_methods())


def _of_methods() -> dict[str, Table]:
    return {row.name: row for method in measured_methods() for row in method.tables}


TABLES: Mapping[str, Table] = _Tables()


def needs() -> dict[str, str]:
    """Return in words what must be there for a table, by its ``needs``."""
    return NEEDS | {name: text for method in measured_methods() for name, text in method.needs.items()}


def write(run: Run, name: str, frame: pd.DataFrame) -> None:
    """Write a result table of a run, once it is found to be what its row says."""
    row = TABLES.get(name)
    if row is None:
        raise ValueError(f"expected a table of the registry, got {name!r}")
    if not row.fits(list(frame.columns)):
        raise ValueError(f"{name}: expected the columns {', '.join(row.columns)}, got {', '.join(frame)}")
    run.write_table(name, with_unit(frame, run.config), csv=row.csv)


def read(run: Run, name: str) -> pd.DataFrame:
    """Return a result table of a run with the columns that its row names."""
    row = TABLES[name]
    return run.table(name, (column for column in row.columns if not column.endswith("*")), row.texts)
