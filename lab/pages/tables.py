"""The page of the docs on every result table and column: ``python -m lab.pages.tables > docs/reference/tables.md``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from analysis.methods.audit.labelled_audit import TABLES as AUDIT
from analysis.tables.registry import TABLES, columns_of, groups
from analysis.tables.spec import Column, described_in
from lab.templates import render

_ENDS = (("low", "high", "Lower", "Upper"), ("first", "second", "first", "second"))


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
        """Return names, column and meaning of each line of a list: ends of an interval have one, and two sides."""
        lines: list[tuple[str, Column, str]] = []
        for one in columns:
            names, last, meaning = lines[-1] if lines else ("", one, "")
            for old, new, said, other in _ENDS:
                same = one.meaning in (meaning.replace(said, other), f"{other} end of the same interval.")
                if len(columns) > 1 and one.name == re.sub(f"{old}$", new, last.name) != last.name and same:
                    both = meaning.replace("Lower end", "Ends").replace("first", "first (second)")
                    lines[-1] = (f"{names}, `{one.name}`", last, both)
                    break
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
    like: dict[str, str] = {}  # the first table of the same columns, by name
    for name, columns in runs.items():
        like[name] = next(other for other, first in runs.items() if first == columns)
    return render(
        "tables",
        alone=", ".join(f"`{table.name}`" for table in TABLES.values() if not table.csv),
        shared=Shared([*(runs[name] for name in {*like.values()}), *(columns for _, _, columns in audit)]),
        sections={text: [(table, runs[table.name]) for table in tables] for text, tables in groups().items()},
        audit=audit,
        like=like,
    )


if __name__ == "__main__":
    print(page(), end="")
