"""The page of the docs that lists every result table: ``python -m lab.pages.tables > docs/tables.md``."""

from __future__ import annotations

from analysis.tables.registry import TABLES, needs
from analysis.tables.similarities.stored import IMAGE_METRICS, IMAGE_TABLE
from analysis.tables.table import Table

_HEAD = """# Tables

What stands in `tables/` of a run, as CSV and Parquet; `analysis.load_run(...).table(name)` reads one. A table of the
paper (Wu et al. 2025) has its number in its name and stands there as LaTeX, too; so do those of Zhang et al. 2023 (GEP)
of an audit of attributes and of Cho et al. 2023 (DALL-Eval) of an audit of professions. NaN has its `reason` beside it.

In CSV a text that a spreadsheet would calculate (`=`, `+`, `-`, `@` before it, and it is no number) has an apostrophe
before it; Parquet holds it as it is.

In a run of one prompt and several seeds intervals and p-values are over its seeds, for this prompt alone (Wu et al.
2025, section 7.1): tables that hold any have a last column `unit`, `seed` or `prompt`, and their `n_prompts` counts
these.

This page is made by `python -m lab.pages.tables > docs/tables.md` of `analysis/tables/registry.py`.
"""


def _section(table: Table) -> str:
    latex = f" LaTeX: `{table.latex.name}.tex`." if table.latex else ""
    if table.latex_alone:
        latex += f" Of a run of one prompt: `{table.latex_alone.name}.tex`."
    if table.printed:
        latex += f" LaTeX: {', '.join(f'`{one.name}.tex`' for one in table.printed)}."
    parquet = "" if table.csv else " Parquet alone."
    names = table.columns
    if table.name == IMAGE_TABLE:  # of the metrics of pictures there may be others tomorrow
        names = tuple(dict.fromkeys("<metric>" if name in IMAGE_METRICS else name for name in names))
    columns = ", ".join(f"`{name}`" for name in names)
    asked = f" In some runs: {', '.join(f'`{name}`' for name in table.optional)}." if table.optional else ""
    head = f"A row: {table.rows}.{parquet}{latex}{asked} Made by `{table.maker}`."
    return f"### `{table.name}`\n\n{head}\n\n{columns}\n"


def page() -> str:
    """Return the whole page in Markdown."""
    lines = [_HEAD]
    for kind, text in needs().items():
        lines.append(f"## Of {text}\n")
        lines += [_section(table) for table in TABLES.values() if table.needs == kind]
    return "\n".join(lines)


if __name__ == "__main__":
    print(page(), end="")
