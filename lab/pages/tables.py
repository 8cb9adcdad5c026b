"""The page of the docs on every result table and column: ``python -m lab.pages.tables > docs/reference/tables.md``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from analysis.methods.audit.columns import TABLES as AUDIT
from analysis.methods.audit.columns import described
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
        audit=[(name, rows, list(_escaped(described(name)))) for name, rows in AUDIT.items()],
    )


def _columns(table: str) -> Iterator[Column]:
    """Yield the columns of a table of runs."""
    yield from _escaped(columns_of(table))


def _escaped(columns: Iterable[Column]) -> Iterator[Column]:
    """Yield columns with no bar that would end a cell."""
    for column in columns:
        yield Column(*(value.replace("|", "\\|") for value in vars(column).values()))


if __name__ == "__main__":
    print(page(), end="")
