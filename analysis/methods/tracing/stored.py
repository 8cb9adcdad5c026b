"""A stored trace for the report: its tables by name, and examples of its images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.methods.tracing.figures import patch_name
from analysis.methods.tracing.shares import SUFFICIENCY
from analysis.report.first_screen import ends_and_middle
from analysis.report.format import number
from analysis.report.method import Example, ExamplePicture
from analysis.tables.registry import read
from probes.runs.images import read_image
from probes.runs.parts import read_part

if TYPE_CHECKING:
    from probes.runs.run import Run

NAMES = tuple(f"trace_{name}" for name in ("total", "shares", "windows", "heads", "cuts"))


@dataclass(frozen=True)
class StoredTrace:
    """The tables of a trace that a run holds, by name, and examples of its images."""

    tables: Mapping[str, pd.DataFrame]
    seeds: int
    examples: Sequence[Example] = ()

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


def read_trace(run: Run) -> StoredTrace | None:
    """Read the tables of a run's trace and examples of its images; None for a run without a trace."""
    existing = set(run.tables())
    if "trace_total" not in existing:
        return None
    outcomes = read(run, "trace_outcomes")
    seeds = int(outcomes["seed"].nunique())
    trace = StoredTrace({name: read(run, name) for name in NAMES if name in existing}, seeds)
    if not run.parts("traced"):  # the tables may be all that is left of it
        return trace
    outcomes = outcomes[outcomes["outcome"] == trace.outcome]
    return StoredTrace(trace.tables, seeds, examples(run, trace, outcomes))


def examples(run: Run, trace: StoredTrace, outcomes: pd.DataFrame) -> list[Example]:
    """Triplets with the smallest, the middle and the largest total effect, with the outcome of each image.

    The last image is the reference's with the first word's activations at the place that moves the outcome most.
    """
    reference, (first, second) = run.config.reference, trace.both.split("-")
    variants = {name: f"none:{name}" for name in (second, reference, first)}
    shares = trace.shown("trace_shares")
    if len(shares):
        sites = shares[(shares["kind"] == "site") & (shares["estimand"] == SUFFICIENCY)]
        if len(sites) and sites["effect"].notna().any():
            best = sites.loc[sites["effect"].abs().idxmax()]
            label = f"{reference}, patched at {patch_name(best)}"
            variants[label] = f"site:{best['site']}:{first}>{reference}"
    wide = outcomes.pivot(index=["triplet", "seed"], columns="variant", values="value")
    if not set(variants.values()) <= set(wide):
        return []
    wide = wide[list(variants.values())].dropna()
    total = (wide[variants[first]] - wide[variants[second]]).sort_values(kind="stable")
    chosen = [total.index[index] for index in ends_and_middle(len(total)).values()]
    images = _images(run, {(*key, variant) for key in chosen for variant in variants.values()})
    samples = run.samples(["triplet", "indicator", "prompt"])
    samples = samples[samples["indicator"] == reference].drop_duplicates("triplet")
    prompts = dict(zip(samples["triplet"], samples["prompt"]))
    found = []
    for key in chosen:
        prompt, value = prompts[key[0]], float(total[key])
        pictures = [
            ExamplePicture(images[*key, variant], prompt, name, number(wide.at[key, variant], 2, signed=True))
            for name, variant in variants.items()
        ]
        found.append(Example("total effect", value, number(value, 2, signed=True), prompt, pictures))
    return found


def _images(run: Run, wanted: set[tuple[int, int, str]]) -> dict[tuple[int, int, str], Any]:
    """Images of a trace by triplet, seed and variant."""
    found = {}
    for file in run.parts("traced"):
        keys = [tuple(key.values()) for key in read_part(file, ["triplet", "seed", "variant"]).to_pylist()]
        rows = [row for row, key in enumerate(keys) if key in wanted]
        if rows:
            stored = read_part(file, ["image"]).take(rows)["image"].to_pylist()
            found |= {keys[row]: read_image(one["bytes"]) for row, one in zip(rows, stored)}
    return found
