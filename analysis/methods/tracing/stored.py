"""A stored trace for the report: its tables by name, and the images of its strip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pandas as pd

from analysis.methods.tracing.strip import StripRow, lead_examples, strip_of
from analysis.report.method import Example
from analysis.tables.registry import read

if TYPE_CHECKING:
    from probes.runs.run import Run

NAMES = tuple(f"trace_{name}" for name in ("total", "shares", "windows", "heads", "together", "cuts"))


@dataclass(frozen=True)
class TraceSection:
    """The tables of a trace that a run holds, by name, and the images of its strip and of the first screen."""

    tables: Mapping[str, pd.DataFrame]
    seeds: int
    strip: Sequence[StripRow] = ()
    columns: Sequence[str] = ()
    lead_examples: Sequence[Example] = ()

    @property
    def outcome(self) -> str:
        """The outcome that is shown: the first."""
        return str(self.tables["trace_total"]["outcome"].iloc[0])

    @property
    def both(self) -> str:
        """Name of both words together."""
        return str(self.tables["trace_total"]["donor"].iloc[0])

    def shown(self, name: str, every_donor: bool = False) -> pd.DataFrame:
        """Rows of a table of the outcome that is shown, of both words together or of every donor."""
        if name not in self.tables:
            return pd.DataFrame()
        table = self.tables[name]
        table = table[table["outcome"] == self.outcome]
        if not every_donor and "donor" in table:
            table = table[table["donor"] == self.both]
        return table.reset_index(drop=True)


def read_trace(run: Run) -> TraceSection | None:
    """Read the tables of the section and the images of its strip; None for a run without a trace."""
    there = set(run.tables())
    if "trace_total" not in there:
        return None
    tables = {name: read(run, name) for name in NAMES if name in there}
    outcomes = read(run, "trace_outcomes")
    section = TraceSection(tables, int(outcomes["seed"].nunique()))
    if not run.parts("traced"):  # the tables may be all that is left of it
        return section
    outcomes = outcomes[outcomes["outcome"] == section.outcome]
    words = section.both.split("-")
    strip, columns = strip_of(run, section.shown("trace_shares"), outcomes, words)
    return replace(section, strip=strip, columns=columns, lead_examples=lead_examples(run, outcomes, words))
