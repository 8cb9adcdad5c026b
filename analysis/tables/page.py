"""The page of the docs that lists every result table: ``python -m analysis.tables.page > docs/tables.md``."""

from __future__ import annotations

from analysis.tables.registry import NEEDS, TABLES, Table
from analysis.tables.stored_similarities import FEATURE_METRICS, IMAGE_METRICS, IMAGE_TABLE

_HEAD = """# Tables

What stands in `tables/` of a run, as CSV and Parquet; `analysis.load_run(...).table(name)` reads one. A table of the
paper (Wu et al. 2025) has its number in its name and stands there as LaTeX, too. NaN has its `reason` beside it.

This page is made by `python -m analysis.tables.page > docs/tables.md` of `analysis/tables/registry.py`.
"""


def _section(table: Table) -> str:
    latex = f" LaTeX: `{table.latex.name}.tex`." if table.latex else ""
    parquet = "" if table.csv else " Parquet alone."
    names = table.columns
    if table.name == IMAGE_TABLE:  # of the metrics of pictures there may be others tomorrow
        metrics = {*IMAGE_METRICS, *(f"{name}?" for name in FEATURE_METRICS)}
        names = tuple(dict.fromkeys("<metric>" if name in metrics else name for name in names))
    columns = ", ".join(f"`{name}`" for name in names)
    return f"### `{table.name}`\n\nA row: {table.rows}.{parquet}{latex} Made by `{table.made_by}`.\n\n{columns}\n"


def page() -> str:
    """Return the whole page in Markdown."""
    lines = [_HEAD]
    for needs, text in NEEDS.items():
        lines.append(f"## Of {text}\n")
        lines += [_section(table) for table in TABLES.values() if table.needs == needs]
    return "\n".join(lines)


if __name__ == "__main__":
    print(page(), end="")
