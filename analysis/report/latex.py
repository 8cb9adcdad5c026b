"""Tables as LaTeX (booktabs), and those of Wu et al. 2025 from the tidy tables of a run.

Every table of a paper is described by its heads and rows; where these are numbers of a tidy table, by `spread`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import pandas as pd

from analysis.metrics.cooccurrence import ALL, INCLUDED, LEFT_OUT
from analysis.metrics.dependency import GROUPS
from analysis.metrics.registry import Metric, headline_metrics
from analysis.report.disparity import not_run
from analysis.report.format import LATEX_DASH, counted, fixed, label, latex_p_value
from analysis.study import Comparison, comparison
from analysis.tables.objects.looked_for import PROMPTS_ALONE, prompts_alone
from analysis.tables.registry import OBJECTS, TABLES, read
from analysis.tables.similarities.similarities import pair_name
from analysis.tables.table import Latex, Table
from probes.runs.run import Run

LONGEST = 400  # characters of a name or a sentence
TREATMENTS = (INCLUDED, LEFT_OUT)  # of individuals, the paper's first
KINDS = (*GROUPS, "nouns")
SCORES = "figure04_bias_scores"
Body = tuple[list[str], list[tuple[str, list[str]]]]  # heads, and rows by their names


class Raw(str):
    """Text that is LaTeX already."""


def latex(
    caption: str, columns: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]], name: str, note: str = ""
) -> str:
    """Return one table; the cells are LaTeX already, all else is plain text unless it is `Raw`.

    The names' column, to which no entry of `columns` belongs, has no head; `name` is for the label, `note` stands under
    the table.
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


def printed(
    tables: Iterable[Table], body: Callable[[str], Body], said: Mapping[str, str], longest: int
) -> Iterator[tuple[str, str]]:
    """Return the LaTeX of every entry of tables that has rows, with its name; `said` fills captions and notes."""
    for entry in (entry for table in tables for entry in table.printed):
        heads, rows = body(entry.name)
        if rows:
            caption = Raw(escaped(entry.caption.format(**said), longest))
            yield entry.name, latex(caption, heads, rows, entry.label, entry.note.format(**said))


def cell(value: float | None, digits: int) -> str:
    """A number with so many decimals; a dash where there is none."""
    return fixed(value, digits, LATEX_DASH)


def signed_cell(value: float | None, digits: int) -> str:
    """The same, with a true minus sign."""
    text = cell(value, digits)
    return f"${text}$" if text.startswith("-") and text != LATEX_DASH else text


def by_cells(cells: Mapping[tuple[str, str], str], columns: Sequence[str] = ()) -> Body:
    """Return heads and rows of a table from its cells by row and column, as they come; a dash where there is none.

    ``columns`` names all columns in their order, where cells may lack one.
    """
    heads = list(columns or dict.fromkeys(column for _, column in cells))
    names = dict.fromkeys(row for row, _ in cells)
    return heads, [(name, [cells.get((name, head), LATEX_DASH) for head in heads]) for name in names]


def spread(
    rows: Iterable[Mapping[str, Any]],
    row: str,
    column: str,
    value: str | Sequence[str],
    digits: int = 2,
    *,
    columns: Sequence[str] = (),
    mean: str = "",
) -> Body:
    """Return heads and rows of a table whose cells are numbers of the rows of a tidy table.

    `row` and `column` say what these are called, filled in with a row's values: ``"{model}: {indicator}"``. Of several
    rows in one cell it is their mean; of several `value` columns the numbers stand in a cell with / between. `columns`
    names all columns in their order, where the rows may lack one; `mean` is the head of a last column with the mean of
    each row's numbers.

    >>> rows = [{"word": "a", "of": "tie", "n": 0.5}, {"word": "a", "of": "hat", "n": 0.2}]
    >>> spread(rows, "{word}", "{of}", "n", columns=["hat", "tie"], mean="all")
    (['hat', 'tie', 'all'], [('a', ['0.20', '0.50', '0.35'])])
    """
    values = (value,) if isinstance(value, str) else value
    numbers: dict[tuple[str, str], list[list[float]]] = {}
    for one in rows:
        place = row.format_map(one), column.format_map(one)
        numbers.setdefault(place, []).append([one.get(name, math.nan) for name in values])
    means = {place: [_mean(several) for several in zip(*of)] for place, of in numbers.items()}
    cells = {place: "/".join(cell(number, digits) for number in own) for place, own in means.items()}
    columns = list(columns or dict.fromkeys(head for _, head in cells))
    for name in dict.fromkeys(name for name, _ in cells) if mean else ():
        cells[name, mean] = cell(_mean(own[0] for (of, _), own in means.items() if of == name), digits)
    return by_cells(cells, [*columns, *([mean] if mean else [])])


def _mean(numbers: Iterable[float]) -> float:
    """The mean of the numbers that are there."""
    there = [number for number in numbers if number == number]
    return math.fsum(there) / len(there) if there else math.nan


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


def documents(run: Run) -> Iterator[tuple[str, str]]:
    """Return the LaTeX of every table of the paper that a run holds, each with its name."""
    config, there = run.config, set(run.tables())
    chosen, names = comparison(config), (config.model_name, config.name)
    if config.compares:  # then every measured run has it
        yield _paper_disparity(run, chosen, *names)
    open_cells = prompts_alone(run)
    for name in (table.name for table in OBJECTS if table.latex and table.name in there):
        table = read(run, name)
        if name == SCORES:
            found = _score_tables(table, chosen, *names)
        else:
            found = iter([(TABLES[name].latex.name, paper_table(name, table, chosen, *names))])
        for file, text in found:
            yield file, _noted(text) if open_cells else text


def _paper_disparity(run: Run, chosen: Comparison, model: str, data: str) -> tuple[str, str]:
    """The LaTeX of disparities, with its name."""
    entry, texts = TABLES["disparity"].latex, {}
    if run.config.unit == "seed":  # Table 10: the same of one prompt, over its seeds
        samples = run.samples(["indicator", "seed", "prompt"])
        of_reference = samples.loc[samples["indicator"] == chosen.reference, "prompt"]
        texts = {"seeds": counted(samples["seed"].nunique(), "seed"), "prompt": of_reference.iloc[0]}
        entry = TABLES["disparity"].latex_alone
    table, metrics = read(run, "disparity"), headline_metrics(run.config.measure.text_readout)
    missing = run.meta.get("not_observed")
    return entry.name, disparity_table(table, metrics, chosen, model, data, missing, entry, **texts)


def _noted(text: str) -> str:
    """A table with the reason for what it leaves open."""
    note = escaped(f"{LATEX_DASH}, or nothing: not known, since {PROMPTS_ALONE}.")
    return text.replace("\\end{table}", f"\\par\\smallskip\\footnotesize {note}\n\\end{{table}}")


def paper_table(name: str, table: pd.DataFrame, chosen: Comparison, model: str, data: str) -> str:
    """Return the LaTeX of a table of objects, with the caption, label and note of its row in the registry."""
    entry, (heads, rows) = TABLES[name].latex, _BODIES[name](table, chosen, data)
    return latex(entry.caption.format(data=data, model=model), heads, rows, entry.label, entry.note)


def disparity_table(
    disparity: pd.DataFrame,
    metrics: Sequence[Metric],
    chosen: Comparison,
    model: str,
    data: str,
    missing: Mapping[str, str] | None = None,
    entry: Latex | None = None,
    **texts: str,
) -> str:
    """Table 5 or 10: similarity of the reference with every other indicator in prompt, denoising and image space.

    A dash stands in columns that the run does not hold; `missing` says why, by what did not observe the images.
    """
    entry = entry or TABLES["disparity"].latex
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
        text = [cell(value, metric.digits) for value, metric in zip(values, metrics)]
        rows.append((f"({chosen.reference}, {other})", text))
    absent = [metric for metric in metrics if not cells[metric]]
    named = ", ".join(m.latex or escaped(m.symbol) for m in absent)
    why = "".join(f" {escaped(line)}." for line in not_run(absent, missing or {}))
    note = f"{LATEX_DASH}: not measured in this run ({named}).{why}" if absent else ""
    caption = entry.caption.format(data=data, model=model, **texts)
    return latex(caption, heads, rows, entry.label, Raw(f"{escaped(entry.note)} {note}".strip()))


def _similarity(table06: pd.DataFrame, chosen: Comparison, data: str) -> Body:
    """Table 6: co-occurrence similarity of the reference with every other indicator, persons in, then left out."""
    values = {
        (row.individuals, frozenset((row.first, row.second))): row.value for row in table06.itertuples()
    }
    pairs = [(chosen.reference, other) for other in chosen.main if other != chosen.reference]
    rows = [
        (f"({', '.join(pair)})", [cell(values.get((which, frozenset(pair))), 3) for which in TREATMENTS])
        for pair in pairs
    ]
    return [data, f"{data}, individuals left out"], rows


def _chi_square(table07: pd.DataFrame, chosen: Comparison, data: str) -> Body:
    """Tables 7 to 9: p-values of the chi-square tests by group."""
    own = table07[table07["individuals"] == LEFT_OUT].set_index(["group", "comparison"])["p_value"]
    rows = []
    for names in chosen.sets:
        whole = "Triplet" if len(names) == 3 else "All"
        values = [own.get((group, "-".join(names)), math.nan) for group in (ALL, *GROUPS)]
        rows.append((whole if len(names) > 2 else f"({', '.join(names)})", [*map(latex_p_value, values)]))
    return ["All objects", *_heads(GROUPS)], rows


def _presence(table11: pd.DataFrame, chosen: Comparison, data: str) -> Body:
    """Table 11: percent of the images that hold a group; of each indicator without individuals."""
    whole = (table11["individuals"] == INCLUDED) & (table11["indicator"] == ALL)
    own = table11[whole | ((table11["individuals"] == LEFT_OUT) & (table11["indicator"] != ALL))]
    return _by_indicator(own, "percent_of_images", GROUPS, 2, data)


def _amounts(table12: pd.DataFrame, chosen: Comparison, data: str) -> Body:
    """Table 12: distinct objects of each group, and distinct nouns."""
    return _by_indicator(table12, "amount", KINDS, 0, data)


def _by_indicator(table: pd.DataFrame, value: str, kinds: Sequence[str], digits: int, data: str) -> Body:
    named = table["indicator"].map(lambda name: data if name == ALL else f"{data}: {name}")
    rows = table.assign(named=named).to_dict("records")
    _, body = spread(rows, "{named}", "{group}", value, digits, columns=kinds)
    return _heads(kinds), body


def _intersection(table13: pd.DataFrame, chosen: Comparison, data: str) -> Body:
    """Table 13: what the groups have in common."""
    values = table13.set_index(["over_group", "group"])["percent"]
    names = [f"Over {head.lower()}" for head in _heads(KINDS)]
    return _heads(KINDS), [
        (name, [cell(values[over, kind], 2) for kind in KINDS]) for name, over in zip(names, KINDS)
    ]


def _frequent(figure06: pd.DataFrame, chosen: Comparison, data: str) -> Body:
    """Figure 6 as a table: the most frequent objects of each group."""
    columns = {group: [] for group in GROUPS}
    for row in figure06.itertuples():
        columns.get(row.group, []).append(f"{escaped(row.object)} ({row.count})")
    rows = [
        (str(rank), list(cells)) for rank, cells in enumerate(zip_longest(*columns.values(), fillvalue=""), 1)
    ]
    return _heads(GROUPS), rows


def _heads(kinds: Sequence[str]) -> list[str]:
    return [kind.replace("_", " ").capitalize() for kind in kinds]


def _score_tables(scores: pd.DataFrame, chosen: Comparison, *names: str) -> Iterator[tuple[str, str]]:
    for number, group in ((4, ALL), (7, "implicitly_guided"), (8, "implicitly_independent")):
        for contrast in chosen.contrasts:
            for individuals in TREATMENTS if set(contrast) <= set(chosen.main) else ():
                name = TABLES[SCORES].latex.name.format(number=number, contrast="_".join(contrast))
                name += "_no_persons" if individuals == LEFT_OUT else ""
                yield name, score_table(scores, contrast, group, individuals, name, *names)


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
        (row.object, [cell(row.bias_score, 2), f"{row.count_first}", f"{row.count_second}"])
        for row in own.itertuples()
    ]
    what = "all objects" if group == ALL else f"{_heads([group])[0].lower()} objects"
    entry = TABLES[SCORES].latex
    caption = entry.caption.format(objects=what, data=data, model=model, first=first, second=second)
    note = "" if individuals == INCLUDED else entry.note
    return latex(caption, ["Bias score", f"C({second})", f"C({first})"], rows, name, note)


_BODIES: Mapping[str, Callable[[pd.DataFrame, Comparison, str], Body]] = {
    "table06_similarity": _similarity,
    "table07_chi_square": _chi_square,
    "figure06_group_objects": _frequent,
    "table11_presence": _presence,
    "table12_amounts": _amounts,
    "table13_intersection": _intersection,
}
