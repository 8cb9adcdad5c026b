"""The page of the docs that lists every result table: ``python -m lab.pages.tables > docs/reference/tables.md``."""

from __future__ import annotations

from analysis.tables.registry import TABLES, needs
from analysis.tables.similarities.pictures import IMAGE_METRICS, IMAGE_TABLE
from analysis.tables.table import Table
from lab.templates import render


def page() -> str:
    """Return the whole page in Markdown."""
    return render(
        "tables",
        sections={
            text: [(table, _columns(table)) for table in TABLES.values() if table.needs == kind]
            for kind, text in needs().items()
        },
    )


def _columns(table: Table) -> tuple[str, ...]:
    if table.name != IMAGE_TABLE:
        return table.columns
    # of the metrics of pictures there may be others tomorrow
    return tuple(dict.fromkeys("<metric>" if name in IMAGE_METRICS else name for name in table.columns))


if __name__ == "__main__":
    print(page(), end="")
