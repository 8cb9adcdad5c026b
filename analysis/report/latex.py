"""Tables as LaTeX (booktabs), and those of Wu et al. 2025 from the tidy tables of a run.

Every table of a paper is described by its heads and rows; where these are numbers of a tidy table, by `spread`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from analysis.metrics.cooccurrence import INCLUDED, LEFT_OUT
from analysis.metrics.dependency import GROUPS
from analysis.report.format import LATEX_DASH, fixed, label
from analysis.tables.table import Table

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
