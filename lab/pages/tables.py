"""The page of the docs on every result table and column: ``python -m lab.pages.tables > docs/reference/tables.md``."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.tables.columns import Column, columns_of
from analysis.tables.registry import TABLES, needs
from lab.templates import render


def page() -> str:
    """Return the whole page in Markdown."""
    return render(
        "tables",
        alone=", ".join(f"`{table.name}`" for table in TABLES.values() if not table.csv),
        sections={
            text: [(table, list(_columns(table.name))) for table in TABLES.values() if table.needs == kind]
            for kind, text in needs().items()
        },
    )


def _columns(table: str) -> Iterator[Column]:
    """Yield the columns of a table, with no bar that would end a cell."""
    for column in columns_of(table):
        yield Column(*(value.replace("|", "\\|") for value in vars(column).values()))


if __name__ == "__main__":
    print(page(), end="")
