"""What the report shows of a trace, read from the tables and the images of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.methods.tracing.figures import StripRow, patch_name
from analysis.study import indicators
from analysis.tables.registry import read
from probes.runs.images import read_image
from probes.runs.parts import read_part

if TYPE_CHECKING:
    from probes.runs.store import Run

NAMES = (
    "trace_total",
    "trace_shares",
    "trace_windows",
    "trace_heads",
    "trace_together",
    "trace_curve",
    "trace_shapley",
    "trace_cuts",
)
STRIP_PROMPTS = 2


@dataclass(frozen=True)
class TraceSection:
    """The tables of a trace, by name, and the images of its strip.

    Attributes
    ----------
    tables : mapping of str to DataFrame
        Those that the run holds.
    seeds : int
        Of each prompt.
    sites : int
        Places that were swept.
    strip : sequence of StripRow
    columns : sequence of str
        Heads of the strip.
    """

    tables: Mapping[str, pd.DataFrame]
    seeds: int
    strip: Sequence[StripRow] = ()
    columns: Sequence[str] = ()

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
    strip, columns = _strip(run, section, outcomes[outcomes["outcome"] == section.outcome])
    return TraceSection(tables, section.seeds, strip, columns)


def _strip(run: Run, section: TraceSection, outcomes: pd.DataFrame) -> tuple[list[StripRow], list[str]]:
    """Prompts at which the words move the outcome farthest, with the places of the largest and the smallest share."""
    shares = section.shown("trace_shares")
    sites = shares[(shares["kind"] == "site") & shares["sufficiency"].notna()] if len(shares) else shares
    if sites.empty:
        return [], []
    ends = [sites.loc[sites["sufficiency"].idxmax()], sites.loc[sites["sufficiency"].abs().idxmin()]]
    reference, donors = run.config.reference, section.both.split("-")
    wide = outcomes.pivot(index=["triplet", "seed"], columns="variant", values="value")
    rows: list[StripRow] = []
    for donor in donors:
        names = [f"none:{reference}", f"none:{donor}"]
        names += [f"site:{end['site']}:{donor}>{reference}" for end in ends]
        if not set(names) <= set(wide):
            continue
        apart = (wide[names[1]] - wide[names[0]]).where(wide[names].notna().all(axis=1)).abs().dropna()
        chosen = apart.sort_values(ascending=False, kind="stable").index[:STRIP_PROMPTS]
        images = _images(run, {(*key, name) for key in chosen for name in names})
        words = {member.name: member.word for member in indicators(run.config)}
        prompts = _prompts(run, reference)
        rows += [
            StripRow(
                f"{prompts[key[0]]} (donor: {words[donor]})",
                [images[(*key, name)] for name in names],
                [float(wide.at[key, name]) for name in names],
            )
            for key in chosen
        ]
    heads = [reference, "donor"]
    heads += [
        f"{text} share: {patch_name(end)}" for text, end in zip(("largest", "smallest"), ends, strict=True)
    ]
    return rows, heads


def _prompts(run: Run, reference: str) -> dict[int, str]:
    samples = run.samples(["triplet", "indicator", "prompt"])
    samples = samples[samples["indicator"] == reference].drop_duplicates("triplet")
    return dict(zip(samples["triplet"], samples["prompt"]))


def _images(run: Run, wanted: set[tuple[int, int, str]]) -> dict[tuple[int, int, str], Any]:
    """Images of a trace by triplet, seed and variant."""
    found = {}
    for file in run.parts("traced"):
        keys = read_part(file, ["triplet", "seed", "variant"]).to_pylist()
        rows = [row for row, key in enumerate(keys) if tuple(key.values()) in wanted]
        if rows:
            stored = read_part(file, ["image"]).take(rows)["image"].to_pylist()
            found |= {tuple(keys[row].values()): read_image(one["bytes"]) for row, one in zip(rows, stored)}
    return found
