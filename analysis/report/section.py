"""What report, card and notebook show of a method's tables: sentences, figures, tables, and LaTeX (`TableSpec`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import pandas as pd
from jinja2 import Template
from markupsafe import Markup
from PIL import Image

from analysis.report.environment import environment_of
from analysis.report.first_screen import ends_and_middle
from analysis.report.format import DASH, LATEX_DASH, with_interval
from analysis.tables.registry import read
from analysis.tables.spec import Measured, MethodSpec, Pivot, TableSpec, method_specs

if TYPE_CHECKING:
    from analysis.report.figures.style import Drawn
    from probes.runs.run import Run


@dataclass(frozen=True)
class ExamplePicture:
    """An image of an `Example`: its prompt, its indicator where that differs, and what was read in it."""

    image: Image.Image
    prompt: str
    label: str
    reading: str


@dataclass(frozen=True)
class Example:
    """A row of pictures on a first screen, with the number that they are an example of and the number as written."""

    title: str
    value: float
    text: str
    prompt: str
    pictures: Sequence[ExamplePicture]


@dataclass(frozen=True)
class Lead:
    """The first screen of a method that a run was made for.

    ``answer`` is one sentence of at most thirty words; ``figures`` stand beside it and not in the section again;
    ``heading`` and ``chosen`` say what the examples are and how they were chosen; ``beside`` stands before the
    comparison of words, which is folded beside such a screen.
    """

    question: str
    answer: str
    figures: Sequence[str] = ()
    examples: Sequence[Example] = ()
    heading: str = ""
    chosen: str = ""
    beside: str = "Also measured, though the run was not made for it:"


def examples(run: Run, rows: pd.DataFrame, of: str, value: str, images: pd.DataFrame) -> list[Example]:
    """Return the rows with the smallest, the middle and the largest value, with their images.

    `of` is the column that says which images are a row's; these have ``sample_id``, ``prompt``, ``label``, ``reading``.
    """
    ranked, found = rows.sort_values(value, kind="stable").to_dict("records"), []
    for place in ends_and_middle(len(ranked)).values():
        row = ranked[place]
        own = images[images[of] == row[of]]
        shown = zip(run.images(own["sample_id"]), own["prompt"], own["label"], own["reading"])
        text = with_interval(row[value], row["low"], row["high"], 2, signed=True)
        pictures = [ExamplePicture(*one) for one in shown]
        found.append(Example(row[of], row[value], text, pictures[len(pictures) // 2].prompt, pictures))
    return found


def measured(method: MethodSpec, runs: Mapping[str, Run]) -> Measured | None:
    """Return what runs, by model, hold of a method; None where they hold no table of it."""
    tables = {
        spec.name: pd.concat(
            [
                read(run, spec.name).assign(model=model)
                for model, run in runs.items()
                if spec.name in run.tables()
            ],
            ignore_index=True,
        )
        for spec in method.tables
        if spec.shown and any(spec.name in run.tables() for run in runs.values())
    }
    return Measured(method, runs, tables) if tables else None


def sections(run: Run) -> list[Measured]:
    """Return what a run holds of each method that has a section."""
    held = (measured(method, {run.config.model_name: run}) for method in method_specs() if method.title)
    return [one for one in held if one is not None]


def sentences(shown: Measured, spec: TableSpec, kind: str = "text") -> list[str]:
    """Return what is said of a table, by paragraphs; of the kind ``html`` with numbers as they are in the table."""
    if not spec.sentences or spec.name not in shown.tables:
        return []
    rows = shown.tables[spec.name].to_dict("records")
    return lines(spec.sentences, {**shown.words, "rows": rows}, kind)


def lines(template: str, words: Mapping[str, Any], kind: str = "text") -> list[str]:
    """Return the paragraphs of a template filled in; an empty line ends one."""
    text = _template(template, kind).render(words)
    return [" ".join(entry.split()) for entry in re.split(r"\n\s*\n", text) if entry.strip()]


def figures(shown: Measured) -> dict[str, Drawn]:
    """Return the figures of a method, by their names: that of the table, with hyphens."""
    places = [spec.figure for spec in shown.method.tables if spec.figure and spec.name in shown.tables]
    drawn = [resolve_name(place)(shown) for place in places]
    return {one.name: one for one in drawn if one is not None}


def page_section(shown: Measured, drawn: Mapping[str, Drawn]) -> dict[str, Any]:
    """Return what the template ``section.html.j2`` shows: an entry for each table with its sentences and figure."""
    blocks, first = [], shown.lead
    for spec in shown.method.tables:
        name = spec.name.replace("_", "-")
        block = {
            "sentences": [*map(Markup, sentences(shown, spec, "html"))],
            "figure": drawn.get(name) if not first or name not in first.figures else None,
            "tables": tables(shown, spec),
        }
        if any(block.values()):
            blocks.append(block)
    method = shown.method
    intro = lines(method.intro, shown.words)
    return {
        "anchor": method.anchor,
        "title": method.title,
        "shown": {"intro": intro, "blocks": blocks},
        "lead": first,
    }


def tables(shown: Measured, spec: TableSpec) -> list[dict[str, Any]]:
    """Return the tables to be read of a result table, in HTML."""
    return [own for pivot in spec.pivots if pivot.title for own in _tables(pivot, spec, shown, "html")]


def documents(shown: Measured) -> Iterator[tuple[str, str]]:
    """Return the LaTeX of every table of a paper that has rows, with the name of its file."""
    for spec in shown.method.tables:
        for pivot in (one for one in spec.pivots if one.latex):
            for table in _tables(pivot, spec, shown, "latex"):
                yield table["name"], latex(**table)


def _tables(pivot: Pivot, spec: TableSpec, shown: Measured, kind: str) -> Iterator[dict[str, Any]]:
    """Return what a pivot lays out, a table for each name of its LaTeX: heads of columns, and rows as (head, cells).

    A dash stands where there is no cell.
    """
    if pivot.frame is None and spec.name not in shown.tables:
        return
    frame = pivot.frame(shown) if pivot.frame else shown.tables[spec.name]
    frame = frame.query(pivot.where, local_dict=shown.words) if pivot.where and len(frame) else frame
    file, tables = _template(pivot.latex, "text"), dict[str, list[dict[str, Any]]]()
    for row in frame.to_dict("records"):
        known = {**shown.words, **row}
        tables.setdefault(file.render(known) if kind == "latex" else "", []).append(known)
    row_head = _template(pivot.rows, kind)
    templates = [(_template(head, kind), _template(cell, kind)) for head, cell in pivot.cells.items()]
    texts = [_template(text, kind) for text in (pivot.caption, pivot.note)]
    dash, text = LATEX_DASH if kind == "latex" else DASH, Markup if kind == "html" else str
    for name, rows in tables.items():
        cells: dict[str, dict[str, str]] = {}
        heads: dict[str, None] = {}
        for row in rows:
            own = cells.setdefault(text(row_head.render(row)), {})
            for head, cell in templates:
                column = text(head.render(row))
                heads[column] = None
                if own.setdefault(column, filled := text(cell.render(row).strip())) != filled:
                    raise ValueError(f"{spec.name}: expected one row a cell, got more for {column}")
        caption, note = (text(" ".join(one.render({**shown.words, "rows": rows}).split())) for one in texts)
        body = [(row, [own.get(head) or dash for head in heads]) for row, own in cells.items()]
        yield {
            "name": name,
            "title": pivot.title,
            "caption": caption,
            "note": note,
            "heads": [*heads],
            "rows": body,
        }


def latex(
    name: str,
    caption: str,
    heads: Sequence[str],
    rows: Sequence[tuple[str, Sequence[str]]],
    note: str = "",
    title: str = "",
) -> str:
    """Return one table as LaTeX of texts that are LaTeX already; `name` is for the label, the note stands below."""
    frame = pd.DataFrame([list(cells) for _, cells in rows], [head for head, _ in rows], list(heads))
    text = frame.style.to_latex(
        column_format="l" + "r" * len(heads),
        position="t",
        position_float="centering",
        hrules=True,
        caption=caption,
        label=f"tab:{name}",
    )
    # no wider than the page
    begin, end = "\\begin{tabular}", "\\end{tabular}"
    text = text.replace(
        begin, "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%\n" + begin
    )
    text = text.replace(end, f"{end}}}" + (f"\n\\par\\smallskip\\footnotesize {note}" if note else ""))
    return f"% needs \\usepackage{{booktabs,graphicx}}\n{text}"


@cache
def _template(text: str, kind: str) -> Template:
    """Return a template of a kind of text; compiled once."""
    return environment_of(kind).from_string(text)
