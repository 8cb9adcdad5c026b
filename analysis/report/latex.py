"""The paper's tables as LaTeX, in its layout (booktabs), from the tidy tables of `analysis.tables.objects.wu`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from analysis.metrics.cooccurrence import ALL, INCLUDED, LEFT_OUT
from analysis.metrics.dependency import GROUPS
from analysis.metrics.registry import Metric, headline_metrics
from analysis.report.format import LATEX_DASH, counted, fixed, label, latex_p_value
from analysis.report.wording import not_run
from analysis.study import Comparison, comparison
from analysis.tables.objects.looked_for import PROMPTS_ALONE, prompts_alone
from analysis.tables.registry import TABLES, read
from analysis.tables.similarities.similarities import pair_name
from probes.runs.store import Run

LONGEST = 400  # characters of a name or a sentence
TREATMENTS = (INCLUDED, LEFT_OUT)  # of individuals, the paper's first


class Raw(str):
    """Text that is LaTeX already."""


def latex(
    caption: str, columns: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]], name: str, note: str = ""
) -> str:
    """Return one table; the cells are LaTeX already.

    Parameters
    ----------
    caption : str
        Plain text, as `columns`, the rows' names and `note`; `Raw` text is LaTeX already.
    columns : sequence of str
        Over the cells; the names' column has no head.
    rows : iterable of (str, sequence of str)
    name : str
        Of the table, for its label.
    note : str
        Under the table.
    """
    lines = [
        "% needs \\usepackage{booktabs,graphicx}",
        "\\begin{table}[t]",
        "\\centering",
        f"\\caption{{{escaped(caption)}}}",
        f"\\label{{tab:{name}}}",
        "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%",  # no wider than the page
        f"\\begin{{tabular}}{{l{'r' * len(columns)}}}",
        "\\toprule",
        " & ".join(["", *map(escaped, columns)]) + " \\\\",
        "\\midrule",
        *(" & ".join([escaped(head), *cells]) + " \\\\" for head, cells in rows),
        "\\bottomrule",
        "\\end{tabular}}",
    ]
    if note:
        lines.append(f"\\par\\smallskip\\footnotesize {escaped(note)}")
    return "\n".join([*lines, "\\end{table}", ""])


def escaped(text: str, longest: int = LONGEST) -> str:
    """Plain text for LaTeX; of more characters the middle is left out.

    Examples
    --------
    >>> escaped("50 % of a_b & c")
    '50 \\\\% of a\\\\_b \\\\& c'
    """
    if isinstance(text, Raw):
        return text
    marks = {"\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}"}
    marks |= {mark: f"\\{mark}" for mark in "&%$#_{}"}
    return "".join(marks.get(letter, letter) for letter in label(text, longest))


def _pretty(group: str) -> str:
    return group.replace("_", " ").capitalize()


def documents(run: Run) -> Iterator[tuple[str, str]]:
    """Return the LaTeX of every table of the paper that a run holds, each with its name."""
    config, there = run.config, set(run.tables())
    compared: dict[str, Any] = {
        "chosen": comparison(config),
        "model": config.model_name,
        "data": config.name,
    }
    plain = {name: compared[name] for name in ("model", "data")}
    metrics = headline_metrics(config.measure.text_readout)
    shown = {
        "disparity": partial(
            disparity_table, metrics=metrics, missing=run.meta.get("not_observed"), **compared
        ),
        "table06_similarity": partial(similarity_table, **compared),
        "table07_chi_square": partial(chi_square_table, **compared),
        "figure06_group_objects": partial(frequent_table, **plain),
        "table11_presence": partial(presence_table, **plain),
        "table12_amounts": partial(amounts_table, **plain),
        "table13_intersection": partial(intersection_table, **plain),
    }
    open_cells = prompts_alone(run)
    for name, entry in ((row.name, row.latex) for row in TABLES.values() if row.latex):
        found: Iterable[tuple[str, str]] = ()
        if name == "figure04_bias_scores" and name in there:
            found = _score_tables(read(run, name), compared["chosen"], plain)
        elif name == "disparity" and config.unit == "seed":
            text = intra_prompt_table(read(run, name), run, metrics, **compared)
            found = [(TABLES[name].latex_alone.name, text)]
        elif name in there or TABLES[name].needs == "samples":  # every measured run has these
            found = [(entry.name, shown[name](read(run, name)))]
        for file, text in found:
            yield file, _noted(text) if open_cells and TABLES[name].needs == "objects" else text


def _noted(text: str) -> str:
    """A table with the reason for what it leaves open."""
    note = escaped(f"{LATEX_DASH}, or nothing: not known, since {PROMPTS_ALONE}.")
    return text.replace("\\end{table}", f"\\par\\smallskip\\footnotesize {note}\n\\end{{table}}")


def _shown(
    name: str, columns: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]], **places: str
) -> str:
    """LaTeX of a table with the caption, label and note of its row in the registry."""
    entry = TABLES[name].latex
    return latex(entry.caption.format(**places), columns, rows, entry.label, entry.note)


def _score_tables(
    scores: pd.DataFrame, chosen: Comparison, where: dict[str, str]
) -> Iterator[tuple[str, str]]:
    for number, group in ((4, ALL), (7, "implicitly_guided"), (8, "implicitly_independent")):
        for contrast in chosen.contrasts:
            for individuals in (INCLUDED, LEFT_OUT) if set(contrast) <= set(chosen.main) else ():
                name = TABLES["figure04_bias_scores"].latex.name.format(
                    number=number, contrast="_".join(contrast)
                )
                name += "_no_persons" if individuals == LEFT_OUT else ""
                yield name, score_table(scores, contrast, group, individuals, name, **where)


def disparity_table(
    disparity: pd.DataFrame,
    metrics: Sequence[Metric],
    chosen: Comparison,
    model: str,
    data: str,
    missing: Mapping[str, str] | None = None,
) -> str:
    """Table 5: similarity of the reference with every other indicator in prompt, denoising and image space.

    Parameters
    ----------
    disparity : DataFrame
        ``tables/disparity``.
    metrics : sequence of Metric
        The paper's columns; a dash stands in those that the run does not hold.
    missing : mapping of str to str, optional
        Why, by the name of what did not look at the images.
    """
    entry = TABLES["disparity"].latex
    heads, rows, note = _disparity(disparity, metrics, chosen, missing)
    return latex(entry.caption.format(data=data, model=model), heads, rows, entry.label, note)


def intra_prompt_table(
    disparity: pd.DataFrame, run: Run, metrics: Sequence[Metric], chosen: Comparison, model: str, data: str
) -> str:
    """Table 10: the same of one prompt, over its seeds."""
    entry = TABLES["disparity"].latex_alone
    samples = run.samples(["indicator", "seed", "prompt"])
    of_reference = samples.loc[samples["indicator"] == chosen.reference, "prompt"]
    caption = entry.caption.format(
        model=model, seeds=counted(samples["seed"].nunique(), "seed"), prompt=of_reference.iloc[0]
    )
    heads, rows, absent = _disparity(disparity, metrics, chosen, run.meta.get("not_observed"))
    note = Raw(f"{escaped(entry.note)} {absent}".strip())
    return latex(caption, heads, rows, entry.label, note)


def _disparity(
    disparity: pd.DataFrame,
    metrics: Sequence[Metric],
    chosen: Comparison,
    missing: Mapping[str, str] | None,
) -> tuple[list[str], list[tuple[str, list[str]]], Raw]:
    """Heads, rows and note of Tables 5 and 10."""
    found = {metric: metric.rows_of(disparity) for metric in metrics}
    cells = {metric: dict(zip(rows["pair"].astype(str), rows["mean"])) for metric, rows in found.items()}
    heads = [
        Raw(
            (metric.latex or escaped(metric.symbol))
            + (" $\\uparrow$" if metric.higher_is_nearer else " $\\downarrow$")
            + (f" ({escaped(metric.unit)})" if metric.unit else "")
        )
        for metric in metrics
    ]
    rows = []
    for other in chosen.main:
        if other == chosen.reference:
            continue
        pair = pair_name(chosen.reference, other, chosen.names)
        values = [cells[metric].get(pair, math.nan) for metric in metrics]
        text = [fixed(value, metric.digits, LATEX_DASH) for value, metric in zip(values, metrics)]
        rows.append((f"({chosen.reference}, {other})", text))
    absent = [metric for metric in metrics if not cells[metric]]
    named = ", ".join(m.latex or escaped(m.symbol) for m in absent)
    why = "".join(f" {escaped(line)}." for line in not_run(absent, missing or {}))
    note = Raw(f"{LATEX_DASH}: not measured in this run ({named}).{why}" if absent else "")
    return heads, rows, note


def similarity_table(table06: pd.DataFrame, chosen: Comparison, model: str, data: str) -> str:
    """Table 6: co-occurrence similarity of the reference with every other indicator, persons in, then left out."""
    cells = {(row.individuals, frozenset((row.first, row.second))): row.value for row in table06.itertuples()}
    pairs = [(chosen.reference, other) for other in chosen.main if other != chosen.reference]
    rows = [
        (f"({', '.join(pair)})", [fixed(cells.get((t, frozenset(pair))), 3, LATEX_DASH) for t in TREATMENTS])
        for pair in pairs
    ]
    return _shown("table06_similarity", [data, f"{data}, individuals left out"], rows, model=model)


def chi_square_table(table07: pd.DataFrame, chosen: Comparison, model: str, data: str) -> str:
    """Tables 7 to 9: p-values of the chi-square tests by group."""
    own = table07[table07["individuals"] == LEFT_OUT].set_index(["group", "comparison"])["p_value"]
    triplet = chosen.sets[-1] if len(chosen.sets[-1]) > 2 else None
    rows = [
        (
            ("Triplet" if len(names) == 3 else "All") if names == triplet else f"({', '.join(names)})",
            [latex_p_value(own.get((group, "-".join(names)), math.nan)) for group in (ALL, *GROUPS)],
        )
        for names in chosen.sets
    ]
    heads = ["All objects", *map(_pretty, GROUPS)]
    return _shown("table07_chi_square", heads, rows, data=data, model=model)


def presence_table(table11: pd.DataFrame, model: str, data: str) -> str:
    """Table 11: percent of the images that hold a group; of each indicator without individuals."""
    whole = (table11["individuals"] == INCLUDED) & (table11["indicator"] == ALL)
    own = table11[whole | ((table11["individuals"] == LEFT_OUT) & (table11["indicator"] != ALL))]
    rows = _by_indicator(own, "percent_of_images", GROUPS, 2, data)
    return _shown("table11_presence", list(map(_pretty, GROUPS)), rows, model=model)


def amounts_table(table12: pd.DataFrame, model: str, data: str) -> str:
    """Table 12: distinct objects of each group, and distinct nouns."""
    kinds = (*GROUPS, "nouns")
    rows = _by_indicator(table12, "amount", kinds, 0, data)
    return _shown("table12_amounts", list(map(_pretty, kinds)), rows, model=model)


def _by_indicator(table: pd.DataFrame, column: str, kinds: Sequence[str], digits: int, data: str):
    cells = table.set_index(["indicator", "group"])[column]
    for name in dict.fromkeys(table["indicator"]):
        label = data if name == ALL else f"{data}: {name}"
        yield label, [fixed(cells[name, kind], digits, LATEX_DASH) for kind in kinds]


def intersection_table(table13: pd.DataFrame, model: str, data: str) -> str:
    """Table 13: what the groups have in common."""
    kinds = (*GROUPS, "nouns")
    cells = table13.set_index(["over_group", "group"])["percent"]
    rows = [
        (f"Over {_pretty(over).lower()}", [fixed(cells[over, kind], 2, LATEX_DASH) for kind in kinds])
        for over in kinds
    ]
    return _shown("table13_intersection", list(map(_pretty, kinds)), rows, data=data, model=model)


def score_table(
    scores: pd.DataFrame,
    contrast: tuple[str, str],
    group: str,
    individuals: str,
    name: str,
    model: str,
    data: str,
) -> str:
    """Figures 4, 7 and 8 as a table: the objects that lean most to either side, with or without individuals."""
    first, second = contrast
    own = scores[(scores["group"] == group) & (scores["first"] == second) & (scores["second"] == first)]
    own = own[own["top" if individuals == INCLUDED else "top_left_out"] != ""].sort_values(
        ["bias_score", "object"], ascending=[False, True]
    )
    rows = [
        (row.object, [fixed(row.bias_score, 2, LATEX_DASH), f"{row.count_first}", f"{row.count_second}"])
        for row in own.itertuples()
    ]
    what = "all objects" if group == ALL else f"{_pretty(group).lower()} objects"
    entry = TABLES["figure04_bias_scores"].latex
    caption = entry.caption.format(objects=what, data=data, model=model, first=first, second=second)
    note = "" if individuals == INCLUDED else entry.note
    return latex(caption, ["Bias score", f"C({second})", f"C({first})"], rows, name, note)


def frequent_table(figure06: pd.DataFrame, model: str, data: str) -> str:
    """Figure 6 as a table: the most frequent objects of each group."""
    by_group = {group: list(part.itertuples()) for group, part in figure06.groupby("group", sort=False)}
    ranks = range(int(figure06["rank"].max()) if len(figure06) else 0)
    rows = [
        (
            str(rank + 1),
            [
                f"{escaped(by_group[group][rank].object)} ({by_group[group][rank].count})"
                if rank < len(by_group.get(group, []))
                else ""
                for group in GROUPS
            ],
        )
        for rank in ranks
    ]
    return _shown("figure06_group_objects", list(map(_pretty, GROUPS)), rows, data=data, model=model)
