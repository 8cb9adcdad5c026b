"""The tables of Zhang et al. 2023 (GEP) as LaTeX, from the tables of one run or of several side by side.

Each is laid out as in the paper, with a run's model in the place of the paper's three. What needs several models
(the mix of artificial sets, pairs of two models) is left out of a run's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import pandas as pd
from scipy import stats

from analysis.methods.gep.evaluation import GROUP_IMAGES, SCALES
from analysis.methods.gep.examples import TYPES
from analysis.methods.gep.powered import POWERED
from analysis.methods.gep.registry import GEP
from analysis.methods.gep.tables import LABELS
from analysis.report.format import LATEX_DASH, fixed
from analysis.report.latex import Raw, escaped, latex
from analysis.tables.registry import read
from analysis.tables.table import Latex

if TYPE_CHECKING:
    from probes.runs.store import Run

SETTINGS = ("neutral", "explicit")
ESTIMATES = ("C", "CC", "CLS")
NAMED = {"checker": "the checker", "human": "people", "detected": "the detector"}
LONGEST_CAPTION = 2_000  # characters; one names every context
Tables = Mapping[str, pd.DataFrame]
Body = tuple[list[str], list[tuple[str, list[str]]]]  # heads, and rows by their names


class AttributeAudits:
    """The tables of audits by model, and which reading and pair of words a paper would show of them.

    Attributes
    ----------
    labels : str
        The surest source that read all of them.
    first, second : str
        The first contrast.
    mixed : DataFrame, optional
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

    def rows(self, name: str, **where: str) -> Iterator[tuple[str, pd.DataFrame]]:
        """Return by model the rows of a table that have these values; of those that hold it."""
        for model, tables in self.models.items():
            if name in tables:
                table = tables[name]
                for column, value in where.items():
                    table = table[table[column] == value]
                yield model, table

    def pair(self, name: str, **where: str) -> Iterator[tuple[str, pd.DataFrame]]:
        """Return the same of the first contrast."""
        return self.rows(name, first=self.first, second=self.second, **where)

    def sources(self, name: str) -> list[str]:
        """Return the estimates that a table speaks of, C, CC and CLS first, without their variants."""
        there = {source for _, table in self.rows(name) for source in table["source"]}
        return [name for name in ("detected", *ESTIMATES, POWERED) if name in there]


def documents(run: Run) -> Iterator[tuple[str, str]]:
    """Return the LaTeX of every table of the paper that a run holds, each with its name."""
    stored = run.tables()
    there = [row.name for row in GEP if row.stage and row.name in stored]
    if "gep_score" in there:
        audits = AttributeAudits({run.config.model_name: {name: read(run, name) for name in there}})
        yield from of_audits(audits, run.config.reference)


def of_audits(audits: AttributeAudits, reference: str) -> Iterator[tuple[str, str]]:
    """Return the LaTeX of every table that audits of one or several models fill.

    Parameters
    ----------
    audits : AttributeAudits
    reference : str
        The indicator that Table 10 holds the others against.
    """
    contexts = list(
        dict.fromkeys(name for _, table in audits.rows("gep_contexts") for name in table["context"])
    )
    said = {
        "labels": NAMED.get(audits.labels, audits.labels),
        "first": audits.first,
        "second": audits.second,
        "reference": reference,
        "contexts": "; ".join(f"{number}: {name}" for number, name in enumerate(contexts, 1)) + ".",
    }
    for row in GEP:
        for entry in row.printed:
            heads, rows = _BODIES[entry.name](audits, entry) if audits.labels else ([], [])
            if rows:
                caption = Raw(escaped(entry.caption.format(**said), LONGEST_CAPTION))
                yield entry.name, latex(caption, heads, rows, entry.label, entry.note)


def _by_setting(audits: AttributeAudits, entry: Latex) -> Body:
    """Table 3: the score, its floor and the CLIPScore in both settings."""
    cells: dict[str, dict[str, list[str]]] = {}
    for setting in SETTINGS:
        fit = {
            model: (table["clip_score"] * table["n_images"]).sum() / table["n_images"].sum()
            for model, table in audits.rows("gep_clip_score", setting=setting)
            for table in (table[table["indicator"].isin([audits.first, audits.second])],)
            if len(table)
        }
        for model, table in audits.pair("gep_score", setting=setting, source=audits.labels):
            for row in table.itertuples():
                beside = [_number(fit.get(model), 1)]
                cells.setdefault(model, {})[setting] = [_number(row.score, 2), _number(row.floor, 2), *beside]
    there = [name for name in SETTINGS if any(name in row for row in cells.values())]
    heads = [f"{name.capitalize()} {what}" for name in there for what in ("GEP", "floor", "CS")]
    dashes = [LATEX_DASH] * 3
    rows = [(model, [one for name in there for one in row.get(name, dashes)]) for model, row in cells.items()]
    return heads, rows


def _estimated_scores(audits: AttributeAudits, entry: Latex) -> Body:
    """Table 6: the score by each estimate and by labels, with ranks and their correlation where there are several."""
    wanted = [*audits.sources("gep_score"), audits.labels]
    wide: dict[str, dict[tuple[str, str], float]] = {name: {} for name in dict.fromkeys(wanted)}
    for setting in SETTINGS:
        for model, table in audits.pair("gep_score", setting=setting):
            for row in table[table["source"].isin(wanted)].itertuples():
                wide[row.source][setting, model] = row.score
    keys = list(dict.fromkeys(key for row in wide.values() for key in row))
    truth = pd.Series(wide[audits.labels]).reindex(keys)
    heads = [f"{setting.capitalize()}, {model}" for setting, model in keys]
    several = len(keys) > 1
    rows = []
    for name, values in wide.items():
        column = pd.Series(values).reindex(keys)
        ranks = column.rank(method="min")
        cells = [
            _significant(value) + (f" (\\#{int(rank)})" if several and rank == rank else "")
            for value, rank in zip(column, ranks)
        ]
        if several:
            tau = float(stats.kendalltau(column, truth, nan_policy="omit").statistic)
            cells.append(_number(tau, 3) if name != audits.labels else "")
        rows.append((_gep(name), cells))
    return [*heads, *(["Tau"] if several else [])], rows


def _against_reference(audits: AttributeAudits, entry: Latex) -> Body:
    """Table 10: the score of each word against the reference, by labels and by CLS."""
    columns = list(
        dict.fromkeys([audits.labels, *(n for n in ("CLS", POWERED) if n in audits.sources("gep_score"))])
    )
    cells: dict[str, dict[str, float]] = {}
    for model, table in audits.rows("gep_score", kind="reference"):
        for row in table[table["source"].isin(columns)].itertuples():
            name = f"{row.second}, {row.setting}" + (f", {model}" if len(audits.models) > 1 else "")
            cells.setdefault(name, {})[row.source] = row.score
    heads = [_gep(name) for name in columns]
    return heads, [(name, [_number(row.get(one), 2) for one in columns]) for name, row in cells.items()]


def _correlation(audits: AttributeAudits, entry: Latex) -> Body:
    """Table 4: tau and MCC of the vectors, by setting and model."""
    return _measured(audits, "gep_agreement", lambda row: _pair_of(row, "tau", "mcc"), counted=True)


def _pearson(audits: AttributeAudits, entry: Latex) -> Body:
    """Table 19: Pearson's correlation of the vectors and of the artificial sets."""

    def cell(row: Mapping[str, float]) -> str:
        return _number(row.get("pearson"), 3)

    heads, rows = _measured(audits, "gep_agreement", cell)
    more, others = _measured(audits, "gep_artificial_agreement", cell)
    beside = dict(others)
    joined = [(name, [*cells, *beside.get(name, [LATEX_DASH] * len(more))]) for name, cells in rows]
    return [*heads, *more], joined


def _measured(
    audits: AttributeAudits,
    name: str,
    cell: Callable[[Mapping[str, float]], str],
    *,
    counted: bool = False,
    variants: bool = False,
) -> Body:
    """A row an estimate, a column a setting and model (of artificial sets: a model), each a cell of its measures."""
    found: dict[str, dict[str, str]] = {}
    heads: dict[str, None] = {}
    for model, table in audits.pair(name, labels=audits.labels):
        table = table if "setting" in table else table.assign(setting="artificial")
        size = "n_examples" if "n_examples" in table else "n"
        for (setting, source), rows in table.groupby(["setting", "source"], sort=False):
            head = f"{setting.capitalize()}, {model}"
            head += f" ({int(rows[size].max())})" if counted else ""
            heads[head] = None
            found.setdefault(source, {})[head] = cell(dict(zip(rows["measure"], rows["value"])))
    order = sorted(
        heads, key=lambda head: next((i for i, s in enumerate(SETTINGS) if head.lower().startswith(s)), 2)
    )
    base = ("detected", *ESTIMATES, POWERED)
    names = list(found) if variants else [one for one in base if one in found]
    return order, [(_gep(one), [found[one].get(head, LATEX_DASH) for head in order]) for one in names]


def _auc_means(audits: AttributeAudits, entry: Latex) -> Body:
    """Table 7: mean area under the curve."""
    found: dict[str, dict[str, float]] = {}
    for model, table in audits.rows("gep_auc", labels=audits.labels):
        for source, rows in table.groupby("source", sort=False):
            found.setdefault(source, {})[model] = rows["auc"].mean()
    names = [one for one in ("detected", *ESTIMATES) if one in found]
    models = list(audits.models)
    return models if names else [], [(one, [_number(found[one].get(m), 3) for m in models]) for one in names]


def _auc_attributes(audits: AttributeAudits, entry: Latex) -> Body:
    """Table 16: the same by attribute, with the mean."""
    attributes = _attributes(audits, "gep_auc")
    rows = []
    for model, table in audits.rows("gep_auc", labels=audits.labels):
        for source, own in table.groupby("source", sort=False):
            if source in ("detected", *ESTIMATES):
                values = own.set_index("attribute")["auc"].reindex(attributes)
                name = f"{model}: {source}" if len(audits.models) > 1 else source
                rows.append((name, [_number(value, 2) for value in [*values, values.mean()]]))
    return [*attributes, "Avg"], rows


def _frequencies(audits: AttributeAudits, entry: Latex) -> Body:
    """Tables 11 and 12: frequencies by indicator, with their mean."""
    attributes, rows = _attributes(audits, "gep_frequencies"), []
    where = {"setting": _setting(entry), "source": audits.labels}
    for model, table in audits.rows("gep_frequencies", **where):
        for indicator, own in table.groupby("indicator", sort=False):
            values = own.set_index("attribute")["frequency"].reindex(attributes)
            rows.append((f"{model}: {indicator}", [_number(value, 2) for value in [*values, values.mean()]]))
    return [*attributes, "Avg"], rows


def _vectors(audits: AttributeAudits, entry: Latex) -> Body:
    """Tables 13 and 14: differences by attribute."""
    attributes, rows = _attributes(audits, "gep_vector"), []
    for model, table in audits.pair("gep_vector", setting=_setting(entry), source=audits.labels):
        values = table.set_index("attribute")["difference"].reindex(attributes)
        if len(table):
            rows.append((model, [_number(value, 2) for value in values]))
    return attributes, rows


def _contexts(audits: AttributeAudits, entry: Latex) -> Body:
    """Table 15: scores of each context, which the caption names."""
    names = list(dict.fromkeys(name for _, table in audits.rows("gep_contexts") for name in table["context"]))
    rows = []
    for setting in SETTINGS:
        for model, table in audits.pair("gep_contexts", setting=setting, source=audits.labels):
            values = table.set_index("context")["score"].reindex(names)
            if len(table):
                rows.append((f"{setting.capitalize()}, {model}", [_number(value, 2) for value in values]))
    return [str(number) for number in range(1, len(names) + 1)], rows


def _scales(audits: AttributeAudits, entry: Latex) -> Body:
    """Table 17: the differences of each scale that examples were drawn from."""
    used = {scale for _, table in audits.rows("gep_artificial") for scale in table["scale"].astype(str)}
    rows = []
    for scale, largest in SCALES.items():
        ends = [_plain(step * largest / 9 / GROUP_IMAGES) for step in (-9, -8, 8, 9)]
        if scale in used:
            rows.append((scale, [f"{ends[0]}, {ends[1]}, \\ldots, {ends[2]}, {ends[3]}"]))
    return ["Differences"], rows


def _artificial(audits: AttributeAudits, entry: Latex) -> Body:
    """Table 5: tau and MCC on the artificial set of each model."""
    return _measured(
        audits, "gep_artificial_agreement", lambda row: _pair_of(row, "tau", "mcc"), counted=True
    )


def _variants(audits: AttributeAudits, entry: Latex) -> Body:
    """Tables 8 and 9: the same of every variant, with what it varies."""
    heads, rows = _measured(
        audits, "gep_artificial_agreement", lambda row: _pair_of(row, "tau", "mcc"), variants=True
    )
    return heads, rows if any(" " in name for name, _ in rows) else []


def _mix(audits: AttributeAudits, entry: Latex) -> Body:
    """Table 18: tau and MCC on the artificial sets of all models together."""
    mixed = _mixed(audits)
    if mixed is None:
        return [], []
    size = int(mixed["n_examples"].max())
    return [f"Mix ({size})"], [
        (_gep(one), [_pair_of(_values(mixed, one), "tau", "mcc")])
        for one in ESTIMATES
        if one in set(mixed["source"])
    ]


def _pair_types(audits: AttributeAudits, entry: Latex) -> Body:
    """Table 21: tau by type of pair; of one model the two types that it has."""
    mixed = _mixed(audits)
    alone = [table for _, table in audits.pair("gep_artificial_agreement", labels=audits.labels)]
    table = mixed if mixed is not None else (alone[0] if len(alone) == 1 else None)
    if table is None:
        return [], []
    types = [name for name in TYPES if name in set(table["measure"])]
    sources = [name for name in ("detected", *ESTIMATES) if name in set(table["source"])]
    heads = [name.replace("_", ", ") for name in types]
    return heads, [
        (_gep(one), [_number(_values(table, one).get(name), 3) for name in types]) for one in sources
    ]


def _mixed(audits: AttributeAudits) -> pd.DataFrame | None:
    if audits.mixed is None:
        return None
    table = audits.mixed
    return table[
        (table["labels"] == audits.labels)
        & (table["first"] == audits.first)
        & (table["second"] == audits.second)
    ]


def _values(table: pd.DataFrame, source: str) -> dict[str, float]:
    own = table[table["source"] == source]
    return dict(zip(own["measure"], own["value"]))


def _attributes(audits: AttributeAudits, name: str) -> list[str]:
    return list(dict.fromkeys(one for _, table in audits.rows(name) for one in table["attribute"]))


def _setting(entry: Latex) -> str:
    return next(name for name in SETTINGS if entry.label.endswith(name))


def _pair_of(row: Mapping[str, float], *names: str) -> str:
    return "/".join(_number(row.get(name), 3) for name in names)


def _number(value: float | None, digits: int) -> str:
    return fixed(value, digits, LATEX_DASH).replace("−", "$-$")


def _significant(value: float) -> str:
    """Three significant digits, since estimates are on scales of their own."""
    return (
        LATEX_DASH if value != value else f"{value:.3g}" if value >= 0.001 or value == 0 else f"{value:.2e}"
    )


def _plain(value: float) -> str:
    return f"{value:.4f}".rstrip("0").replace("-", "$-$")


def _gep(source: str) -> str:
    """A reading as a row's name; its variant follows in words."""
    return source.replace("_", " ")


_BODIES: Mapping[str, Callable[[AttributeAudits, Latex], Body]] = {
    "gep_table03_scores": _by_setting,
    "gep_table04_correlation": _correlation,
    "gep_table05_artificial": _artificial,
    "gep_table06_estimates": _estimated_scores,
    "gep_table07_auc": _auc_means,
    "gep_table09_variants": _variants,
    "gep_table10_reference": _against_reference,
    "gep_table11_frequencies": _frequencies,
    "gep_table12_frequencies": _frequencies,
    "gep_table13_vectors": _vectors,
    "gep_table14_vectors": _vectors,
    "gep_table15_contexts": _contexts,
    "gep_table16_auc": _auc_attributes,
    "gep_table17_scales": _scales,
    "gep_table18_mix": _mix,
    "gep_table19_pearson": _pearson,
    "gep_table21_pair_types": _pair_types,
}
