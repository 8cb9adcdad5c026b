"""The tables of Zhang et al. 2023 (GEP) as LaTeX, from the tables of one run or of several side by side.

Each is laid out as in the paper, with a run's model in the place of the paper's three. What needs several models
(the mix of artificial sets, pairs of two models) is left out of a run's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats

from analysis.methods.gep.artificial import TYPES
from analysis.methods.gep.evaluation import GROUP_IMAGES, SCALES
from analysis.methods.gep.inference import CONTEXTS, CROSSED, IMAGES
from analysis.methods.gep.registry import GEP
from analysis.methods.gep.sources import POWERED
from analysis.methods.gep.tables import LABELS
from analysis.report.format import LATEX_DASH
from analysis.report.latex import Body, by_cells, cell, printed, spread
from analysis.tables.registry import read

if TYPE_CHECKING:
    from probes.runs.run import Run

SETTINGS = ("neutral", "explicit")
ESTIMATES = ("C", "CC", "CLS")
BASE = ("detected", *ESTIMATES)  # estimates without their variants
TAU_MCC = ("tau", "mcc")
NAMED = {"checker": "the checker", "human": "people", "detected": "the detector"}
_SWAPPED = {CONTEXTS: "a context", IMAGES: "a noise", CROSSED: "a context and seed"}  # by the unit of a score
# of Tables 22 to 24: setting, attribute, and which one stands in where an audit lacks it; and their context
EXAMPLES = {22: ("neutral", "suit", 0), 23: ("neutral", "dress", 1), 24: ("explicit", "tie", 0)}
CONTEXT, SHOWN = "holding an umbrella", 4  # images of each word
LONGEST_CAPTION = 2_000  # characters; one names every context
Tables = Mapping[str, pd.DataFrame]
Rows = list[dict[str, Any]]  # of a table, by columns


class AttributeAudits:
    """The tables of audits by model, and which reading and pair of words a paper would show of them.

    The reading is the surest that read all of them, the pair the first contrast; `mixed` is
    ``gep_artificial_agreement`` of the examples of all models together.
    """

    def __init__(self, models: Mapping[str, Tables], mixed: pd.DataFrame | None = None):
        self.models, self.mixed = models, mixed
        scores = [tables["gep_score"] for tables in models.values()]
        common = set.intersection(*(set(one["source"]) for one in scores))
        order = (*LABELS, "detected", *reversed(ESTIMATES))
        self.labels = next((name for name in order if name in common), "")
        pairs = scores[0][scores[0]["kind"] == "contrast"]
        self.first, self.second = ("", "") if pairs.empty else tuple(pairs.iloc[0][["first", "second"]])

    def rows(self, name: str, **where: str) -> Rows:
        """Return the rows of a table with these values, of all models: also ``model`` and, for heads, ``Setting``."""
        return [
            row | {"model": model, "Setting": row.get("setting", "artificial").capitalize()}
            for model, tables in self.models.items()
            if name in tables
            for row in chosen(tables[name], **where)
        ]

    def pair(self, name: str, **where: str) -> Rows:
        """Return the same of the first contrast."""
        return self.rows(name, first=self.first, second=self.second, **where)

    def distinct(self, name: str, column: str) -> list[str]:
        """Return the values of a column of a table, in their order."""
        return list(dict.fromkeys(row[column] for row in self.rows(name)))


def chosen(table: pd.DataFrame, **where: str) -> Rows:
    """Return the rows of a table that have these values."""
    rows = table.to_dict("records")
    return [row for row in rows if all(row[column] == value for column, value in where.items())]


def in_order(rows: Rows, sources: Sequence[str]) -> Rows:
    """Return the rows of these sources, in their order."""
    return sorted(
        (row for row in rows if row["source"] in sources), key=lambda row: sources.index(row["source"])
    )


def documents(run: Run) -> Iterator[tuple[str, str]]:
    """Return the LaTeX of every table of the paper that a run holds, each with its name."""
    stored = run.tables()
    there = [row.name for row in GEP if row.stage and row.name in stored]
    if "gep_score" in there:
        audits = AttributeAudits({run.config.model_name: {name: read(run, name) for name in there}})
        yield from of_audits(audits, run.config.reference)


def of_audits(audits: AttributeAudits, reference: str) -> Iterator[tuple[str, str]]:
    """Return the LaTeX of every table that audits fill; `reference` is the word of Table 10."""
    contexts = enumerate(audits.distinct("gep_contexts", "context"), 1)
    said = {
        "labels": NAMED.get(audits.labels, audits.labels),
        "first": audits.first,
        "second": audits.second,
        "reference": reference,
        "unit": " or ".join(_SWAPPED[unit] for unit in audits.distinct("gep_score", "unit")),
        "contexts": "; ".join(f"{number}: {name}" for number, name in contexts) + ".",
    }
    for number in EXAMPLES:
        images = _example_images(audits, number)
        for column in ("attribute", "context"):
            said[f"{column}{number}"] = images[column].iloc[0] if len(images) else ""
    if audits.labels:
        yield from printed(GEP, lambda name: _BODIES[name](audits), said, LONGEST_CAPTION)


def _by_setting(audits: AttributeAudits) -> Body:
    """Table 3: the score, its floor and the CLIPScore in both settings."""
    fit: dict[tuple[str, str], list[tuple[float, int]]] = {}
    for row in audits.rows("gep_clip_score"):
        if row["indicator"] in (audits.first, audits.second) and row["n_images"]:
            fit.setdefault((row["model"], row["setting"]), []).append((row["clip_score"], row["n_images"]))
    cells = {}
    for setting in SETTINGS:
        for row in audits.pair("gep_score", setting=setting, source=audits.labels):
            values, images = zip(*fit.get((row["model"], setting), [(math.nan, 1)]))
            clip = np.average(values, weights=images)
            for head, value, digits in (
                ("GEP", row["score"], 2),
                ("floor", row["floor"], 2),
                ("CS", clip, 1),
            ):
                cells[row["model"], f"{row['Setting']} {head}"] = cell(value, digits)
    return by_cells(cells)


def _estimated_scores(audits: AttributeAudits) -> Body:
    """Table 6: the score by each estimate and by labels, with ranks and their correlation where there are several."""
    rows = [row for setting in SETTINGS for row in audits.pair("gep_score", setting=setting)]
    wide: dict[str, dict[str, float]] = {name: {} for name in (*_estimates(audits), audits.labels)}
    for row in rows:
        if row["source"] in wide:
            wide[row["source"]]["{Setting}, {model}".format_map(row)] = row["score"]
    heads = list(dict.fromkeys(head for values in wide.values() for head in values))
    truth, several = pd.Series(wide[audits.labels]).reindex(heads), len(heads) > 1
    cells = {}
    for source, values in wide.items():
        column = pd.Series(values, dtype=float).reindex(heads)
        for head, value, rank in zip(heads, column, column.rank(method="min")):
            place = f" (\\#{int(rank)})" if several and rank == rank else ""
            cells[source, head] = _significant(value) + place
        if several:
            tau = float(stats.kendalltau(column, truth, nan_policy="omit").statistic)
            cells[source, "Tau"] = cell(tau, 3) if source != audits.labels else ""
    return by_cells(cells)


def _against_reference(audits: AttributeAudits) -> Body:
    """Table 10: the score of each word against the reference, by labels and by CLS."""
    estimates = [name for name in ("CLS", POWERED) if name in _estimates(audits)]
    sources = dict.fromkeys([audits.labels, *estimates])
    rows = [row for row in audits.rows("gep_score", kind="reference") if row["source"] in sources]
    name = "{second}, {setting}" + (", {model}" if len(audits.models) > 1 else "")
    return spread(rows, name, "{source}", "score", columns=[*sources])


def _agreement(audits: AttributeAudits, table: str, *, variants: bool = False) -> Rows:
    """One row per estimate, setting and model (artificial sets are a setting), with its measures in columns."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in audits.pair(table, labels=audits.labels):
        own = found.setdefault((row["source"], row["Setting"], row["model"]), {"size": 0})
        size = max(own["size"], int(row["n_examples"] if "n_examples" in row else row["n"]))
        own |= row | {row["measure"]: row["value"], "size": size, "source": row["source"].replace("_", " ")}
    order = list(dict.fromkeys(source for source, *_ in found)) if variants else [*BASE, POWERED]
    settings = [*map(str.capitalize, SETTINGS), "Artificial"]
    there = [place for place in found if place[0] in order]
    there.sort(key=lambda place: (order.index(place[0]), settings.index(place[1])))
    return [found[place] for place in there]


def _correlations(audits: AttributeAudits, table: str) -> Body:
    """Tables 4 and 5: tau and MCC, by setting and model."""
    return spread(_agreement(audits, table), "{source}", "{Setting}, {model} ({size})", TAU_MCC, 3)


def _pearson(audits: AttributeAudits) -> Body:
    """Table 19: Pearson's correlation of the vectors and, beside it, of the artificial sets and their mix."""
    real = _agreement(audits, "gep_agreement")
    there = {row["source"] for row in real}
    beside = [row for row in _agreement(audits, "gep_artificial_agreement") if row["source"] in there]
    where = {"labels": audits.labels, "first": audits.first, "second": audits.second, "measure": "pearson"}
    mixed = [] if audits.mixed is None else chosen(audits.mixed, **where)
    mix = [
        row | {"Setting": "Artificial", "model": "mix", "pearson": row["value"]}
        for row in mixed
        if row["source"] in there
    ]
    return spread([*real, *beside, *mix], "{source}", "{Setting}, {model}", "pearson", 3)


def _variants(audits: AttributeAudits) -> Body:
    """Tables 8 and 9: Kendall's tau and MCC of every variant, with what it varies."""
    rows = _agreement(audits, "gep_artificial_agreement", variants=True)
    varied = any(" " in row["source"] for row in rows)
    return spread(rows if varied else (), "{source}", "{Setting}, {model}", TAU_MCC, 3)


def _auc_means(audits: AttributeAudits) -> Body:
    """Table 7: mean area under the curve."""
    rows = in_order(audits.rows("gep_auc", labels=audits.labels), BASE)
    return spread(rows, "{source}", "{model}", "auc", 3, columns=[*audits.models])


def _auc_attributes(audits: AttributeAudits) -> Body:
    """Table 16: the same by attribute, with the mean."""
    name = "{model}: {source}" if len(audits.models) > 1 else "{source}"
    rows = [row for row in audits.rows("gep_auc", labels=audits.labels) if row["source"] in BASE]
    return _by_attribute(audits, "gep_auc", rows, name, "auc", mean="Avg")


def _frequencies(audits: AttributeAudits, setting: str) -> Body:
    """Tables 11 and 12: frequencies by indicator, with their mean."""
    rows = audits.rows("gep_frequencies", setting=setting, source=audits.labels)
    return _by_attribute(audits, "gep_frequencies", rows, "{model}: {indicator}", "frequency", mean="Avg")


def _vectors(audits: AttributeAudits, setting: str) -> Body:
    """Tables 13 and 14: differences by attribute."""
    rows = audits.pair("gep_vector", setting=setting, source=audits.labels)
    return _by_attribute(audits, "gep_vector", rows, "{model}", "difference")


def _by_attribute(
    audits: AttributeAudits, table: str, rows: Rows, name: str, value: str, mean: str = ""
) -> Body:
    columns = audits.distinct(table, "attribute")
    return spread(rows, name, "{attribute}", value, columns=columns, mean=mean)


def _contexts(audits: AttributeAudits) -> Body:
    """Table 15: scores of each context, which the caption names by its number."""
    names = audits.distinct("gep_contexts", "context")
    rows = [
        row | {"number": names.index(row["context"]) + 1}
        for setting in SETTINGS
        for row in audits.pair("gep_contexts", setting=setting, source=audits.labels)
    ]
    columns = [str(number) for number in range(1, len(names) + 1)]
    return spread(rows, "{Setting}, {model}", "{number}", "score", columns=columns)


def _scales(audits: AttributeAudits) -> Body:
    """Table 17: the differences of each scale that examples were drawn from."""
    used = {str(row["scale"]) for row in audits.rows("gep_artificial")}
    cells = {}
    for scale, largest in SCALES.items():
        ends = [_plain(step * largest / 9 / GROUP_IMAGES) for step in (-9, -8, 8, 9)]
        if scale in used:
            cells[scale, "Differences"] = f"{ends[0]}, {ends[1]}, \\ldots, {ends[2]}, {ends[3]}"
    return by_cells(cells)


def _mix(audits: AttributeAudits) -> Body:
    """Table 18: tau and MCC on the artificial sets of all models together."""
    where = {"labels": audits.labels, "first": audits.first, "second": audits.second}
    rows = in_order([] if audits.mixed is None else chosen(audits.mixed, **where), ESTIMATES)
    size = max((int(row["n_examples"]) for row in rows), default=0)
    wide = [row | {row["measure"]: row["value"]} for row in rows if row["measure"] in TAU_MCC]
    return spread(wide, "{source}", f"Mix ({size})", TAU_MCC, 3)


def _pair_types(audits: AttributeAudits) -> Body:
    """Table 21: tau by type of pair; of one model the two types that it has."""
    where = {"labels": audits.labels, "first": audits.first, "second": audits.second}
    table = "gep_artificial_agreement"
    if audits.mixed is not None:
        rows = chosen(audits.mixed, **where)
    else:
        rows = audits.rows(table, **where) if sum(table in own for own in audits.models.values()) == 1 else []
    rows = [row for row in in_order(rows, BASE) if row["measure"] in TYPES]
    there = {row["measure"] for row in rows}
    named = [row | {"types": row["measure"].replace("_", ", ")} for row in rows]
    columns = [name.replace("_", ", ") for name in TYPES if name in there]
    return spread(named, "{source}", "{types}", "value", 3, columns=columns)


def _example_images(audits: AttributeAudits, number: int) -> pd.DataFrame:
    """Tables 22 to 24: what CLS says of the first images of each word in one context, of one attribute.

    Those of the paper where the audit has them, else the first; columns ``label`` and ``number`` of each word's image.
    """
    setting, attribute, place = EXAMPLES[number]
    frames = []
    for model, tables in audits.models.items():
        table = tables.get("gep_predictions", pd.DataFrame(columns=["setting"]))
        own = table[table["setting"] == setting]
        for column, wanted, index in (
            (("attribute", attribute, place), ("context", CONTEXT, 0)) if len(own) else ()
        ):
            names = list(dict.fromkeys(own[column]))
            name = wanted if wanted in names else names[min(index, len(names) - 1)]
            own = own[own[column] == name]
        if len(own):
            found = own[own["source"] == "CLS"].assign(model=model)
            held = own[own["source"] == audits.labels].set_index("sample_id")["value"]
            frames.append(found.assign(label=found["sample_id"].map(held)))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _predictions(audits: AttributeAudits, number: int) -> Body:
    """Tables 22 to 24: one row per model, four images of each word, underlined where the attribute is there."""
    rows = _example_images(audits, number)
    cells = {}
    for word in (audits.first, audits.second) if len(rows) else ():
        for model, own in rows[rows["indicator"] == word].groupby("model", sort=False):
            for place, row in enumerate(own.head(SHOWN).to_dict("records"), 1):
                said = cell(row["value"], 2)
                cells[model, f"{word} {place}"] = f"\\underline{{{said}}}" if row["label"] > 0.5 else said
    heads = [f"{word} {place}" for word in (audits.first, audits.second) for place in range(1, SHOWN + 1)]
    return by_cells(cells, [head for head in heads if any(head == one for _, one in cells)])


def _estimates(audits: AttributeAudits) -> list[str]:
    """The estimates that scores speak of, C, CC and CLS first, without their variants."""
    there = audits.distinct("gep_score", "source")
    return [name for name in (*BASE, POWERED) if name in there]


def _significant(value: float) -> str:
    """Three significant digits, since estimates are on scales of their own."""
    return (
        LATEX_DASH if value != value else f"{value:.3g}" if value >= 0.001 or value == 0 else f"{value:.2e}"
    )


def _plain(value: float) -> str:
    return f"{value:.4f}".rstrip("0").replace("-", "$-$")


_BODIES: Mapping[str, Callable[[AttributeAudits], Body]] = {
    "gep_table03_scores": _by_setting,
    "gep_table04_correlation": lambda audits: _correlations(audits, "gep_agreement"),
    "gep_table05_artificial": lambda audits: _correlations(audits, "gep_artificial_agreement"),
    "gep_table06_estimates": _estimated_scores,
    "gep_table07_auc": _auc_means,
    "gep_table09_variants": _variants,
    "gep_table10_reference": _against_reference,
    "gep_table11_frequencies": lambda audits: _frequencies(audits, "neutral"),
    "gep_table12_frequencies": lambda audits: _frequencies(audits, "explicit"),
    "gep_table13_vectors": lambda audits: _vectors(audits, "neutral"),
    "gep_table14_vectors": lambda audits: _vectors(audits, "explicit"),
    "gep_table15_contexts": _contexts,
    "gep_table16_auc": _auc_attributes,
    "gep_table17_scales": _scales,
    "gep_table18_mix": _mix,
    "gep_table19_pearson": _pearson,
    "gep_table21_pair_types": _pair_types,
    "gep_table22_predictions": lambda audits: _predictions(audits, 22),
    "gep_table23_predictions": lambda audits: _predictions(audits, 23),
    "gep_table24_predictions": lambda audits: _predictions(audits, 24),
}
