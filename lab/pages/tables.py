"""The page of the docs on every result table and column: ``python -m lab.pages.tables > docs/reference/tables.md``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from analysis.methods.audit.labelled_audit import TABLES as AUDIT
from analysis.tables.registry import TABLES, columns_of, groups
from analysis.tables.spec import Column, described_in
from lab.templates import render

_UPPER = ("Upper end.", "Upper end of the same interval.", "Upper end of the same range.")


class Shared:
    """Columns by name that two tables or more have with one meaning; of several, that which saves most words."""

    def __init__(self, tables: Iterable[list[Column]]) -> None:
        counts = Counter(column for columns in tables for column in columns)
        first: dict[str, Column] = {}
        for column in sorted(counts, key=lambda one: (1 - counts[one]) * len(one.meaning)):
            if counts[column] > 1:
                first.setdefault(column.name, column)
        self.columns = sorted(first.values(), key=lambda one: re.sub("high$", "low1", one.name))

    def split(self, columns: list[Column]) -> tuple[list[Column], list[Column]]:
        """Return what a table has of its own, and what is described once for all tables."""
        own = [column for column in columns if column not in self.columns]
        return own, [column for column in columns if column in self.columns]

    @staticmethod
    def lines(columns: list[Column]) -> list[tuple[str, Column, str]]:
        """Return names, column and meaning of each line of a list: the ends of an interval have one."""
        lines: list[tuple[str, Column, str]] = []
        for one in columns:
            last = lines[-1][1] if lines else one
            upper = (*_UPPER, last.meaning.replace("Lower", "Upper", 1))
            if one.name == re.sub("low$", "high", last.name) != last.name and one.meaning in upper:
                ends = last.meaning.replace("Lower end", "Ends", 1)
                lines[-1] = (f"`{last.name}`, `{one.name}`", last, ends)
            else:
                lines.append((f"`{one.name}`", one, one.meaning))
        return lines


def page() -> str:
    """Return the whole page in Markdown."""
    runs = {name: columns_of(name) for name in TABLES}
    audit_columns = described_in("analysis.methods.audit", "table_columns.csv")
    audit = [
        (name, rows, [column for tables, column in audit_columns if name in tables])
        for name, rows in AUDIT.items()
    ]
    return render(
        "tables",
        alone=", ".join(f"`{table.name}`" for table in TABLES.values() if not table.csv),
        shared=Shared([*runs.values(), *(columns for _, _, columns in audit)]),
        sections={text: [(table, runs[table.name]) for table in tables] for text, tables in groups().items()},
        audit=audit,
    )


if __name__ == "__main__":
    print(page(), end="")
