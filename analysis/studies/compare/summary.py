"""Summary of several runs side by side: their names, lines on models and gaps, tables and figures in a folder."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from analysis.metrics.registry import NO_STEP, headline_metrics
from analysis.report.figures import Drawn, files, inline_svg
from analysis.report.figures.forest import draw_forest
from analysis.report.format import counted, interval, number, p_value
from analysis.studies.compare.depth import depth_table, draw_depth, opening
from analysis.studies.compare.differences import compare
from analysis.studies.compare.quantities import Quantities, quantities
from analysis.study import contrasts
from probes.csv_text import csv_bytes
from probes.errors import UserError, nearest
from probes.runs.parts import write_bytes
from probes.runs.store import Run


def named(runs: Sequence[Run]) -> list[str]:
    """Names of the runs, or of their folders where two runs have the same.

    Raises
    ------
    UserError
        If a run is given twice.
    """
    paths = [run.path.resolve() for run in runs]
    for place, path in enumerate(paths):
        if path in paths[:place]:
            raise UserError(f"{runs[place].path}: expected different runs, got it twice: name another")
    for names in ([run.config.name for run in runs], [path.name for path in paths]):
        if len(set(names)) == len(names):
            return names
    return [str(run.path) for run in runs]


def describe_models(runs: Sequence[Run], names: Sequence[str]) -> list[str]:
    """A line for each run whose model is that of the first, or an edit of it, as its record knows the weights."""
    first, lines = runs[0].meta.get("model") or {}, []
    for run, name in zip(runs[1:], names[1:], strict=True):
        model = run.meta.get("model") or {}
        edit = model.get("edit") or {}
        if first.get("weight_hash") is None:
            continue
        if model.get("weight_hash") == first["weight_hash"]:
            lines.append(f"{name}: the model of {names[0]}")
        elif edit.get("original_weight_hash") == first["weight_hash"]:
            kind, sites = edit["edit"]["kind"], len(edit["sites"])
            lines.append(f"{name}: the model of {names[0]} with an edit ({kind}, {counted(sites, 'site')})")
    return lines


def summary(differences: pd.DataFrame, text_readout: str) -> str:
    """The headline gaps' differences, a line each."""
    headline = {metric.place: metric for metric in headline_metrics(text_readout)}
    lines = []
    for row in differences[differences["kind"] == "gap"].to_dict("records"):
        metric = headline.get((row["space"], row["site"], row["metric"]))
        if metric is None or row["step"] != NO_STEP:
            continue
        test = f"{p_value(row['p_value'])}, adjusted {p_value(row['p_adjusted'])}"
        lines.append(
            f"{row['second']} − {row['first']}, {row['what']}, {metric.symbol}: "
            f"{number(row['difference'], metric.digits, signed=True)} "
            f"{interval(row['ci_low'], row['ci_high'], metric.digits)}, "
            f"{row['reason'] or test} ({row['n_prompts']} prompts)"
        )
    return "\n".join(lines) or "no headline gap is common to the runs"


def opening_lines(depth: pd.DataFrame) -> list[str]:
    """A line for each run and contrast: where its gap is first more than its words differ."""
    lines = []
    found = opening(depth).set_index(["run", "contrast"]).to_dict("index")
    for run, contrast in dict.fromkeys(zip(depth["run"], depth["contrast"])):
        place = found.get((run, contrast))
        where = "nowhere between blocks"
        if place:
            where = f"first at depth {place['depth']:.2f} ({place['site']}), noise {place['noise']:.2f}"
        lines.append(f"{run}, {contrast}: more than words differ {where}")
    return lines


@dataclass(frozen=True, repr=False)
class RunComparison:
    """Runs on the same prompts, every two compared, paired by prompt.

    Attributes
    ----------
    runs : sequence of Run
    differences : DataFrame
        One row per quantity and two runs: ``kind``, ``what``, ``space``, ``site``, ``step``, ``metric``, ``first``,
        ``second``, ``difference``, ``ci_low``, ``ci_high``, ``p_value``, ``p_adjusted``, ``n_prompts``, ``reason``.
    values : DataFrame
        One row per quantity and run, with its interval.
    """

    runs: Sequence[Run]
    differences: pd.DataFrame
    values: pd.DataFrame

    def plot(self, contrast: str | None = None) -> Drawn:
        """Draw the headline gaps of every run and the differences of every two.

        Parameters
        ----------
        contrast : str, optional
            ``FIRST-SECOND``; the first of the runs' configuration by default.

        Raises
        ------
        UserError
            The runs have no such contrast, or no headline gap.
        """
        drawn = self._drawn()
        chosen = next(iter(drawn), "") if contrast is None else contrast
        if chosen not in drawn:
            raise UserError(f"contrast: {nearest('contrast', chosen, drawn)}")
        return drawn[chosen]

    @cached_property
    def depth(self) -> pd.DataFrame:
        """The gap of every run by depth in its denoiser and by noise (`analysis.studies.compare.depth.depth_table`)."""
        return depth_table(dict(zip(named(self.runs), self.runs, strict=True)))

    def plot_depth(self, contrast: str | None = None) -> Drawn:
        """Draw where in the denoiser, and at which noise, the gap of each run opens: also of different architectures.

        Parameters
        ----------
        contrast : str, optional
            As of `plot`.

        Raises
        ------
        UserError
            The runs have no such contrast, or fewer than two captured the states between blocks.
        """
        drawn = self._depths()
        chosen = next(iter(drawn), "") if contrast is None else contrast
        if chosen not in drawn:
            raise UserError(f"contrast: {nearest('contrast', chosen, drawn)}")
        return drawn[chosen]

    def write(self, out: str | Path) -> Path:
        """Write ``differences.csv``, ``values.csv``, ``depth.csv`` and their figures to a folder; return it."""
        out = Path(out)
        tables = {"values": self.values, "differences": self.differences, "depth": self.depth}
        for name, table in tables.items():
            write_bytes(out / f"{name}.csv", csv_bytes(table))
        for drawn in (*self._drawn().values(), *self._depths().values()):
            for name, data in files(drawn).items():
                write_bytes(out / name, data)
        return out

    def _drawn(self) -> dict[str, Drawn]:
        """The forest plots by contrast."""
        config = self.runs[0].config
        metrics = headline_metrics(config.measure.text_readout)
        plots = {
            "-".join(contrast): draw_forest(
                self.values, self.differences, metrics, contrast, config.reference
            )
            for contrast in contrasts(config)
        }
        return {name: drawn for name, drawn in plots.items() if drawn is not None}

    def _depths(self) -> dict[str, Drawn]:
        """The figures of depth and noise by contrast."""
        config = self.runs[0].config
        plots = {
            "-".join(contrast): draw_depth(self.depth, contrast, config.reference)
            for contrast in contrasts(config)
        }
        return {name: drawn for name, drawn in plots.items() if drawn is not None}

    def __repr__(self) -> str:
        lines = describe_models(self.runs, named(self.runs))
        gaps = summary(self.differences, self.runs[0].config.measure.text_readout)
        return "\n".join([*lines, gaps, *opening_lines(self.depth)])

    def _repr_html_(self) -> str:
        drawn = (*self._drawn().values(), *self._depths().values())
        plots = "".join(f"<div>{inline_svg(one)}</div>" for one in drawn)
        return f"<pre>{html.escape(repr(self))}</pre>{plots}"


def compared(runs: Sequence[Run], *, every: bool = False, **options) -> RunComparison:
    """Compare runs; `options` are those of `analysis.studies.compare.differences.compare`."""
    read: list[Quantities] = [quantities(run, name=name, every=every) for run, name in zip(runs, named(runs))]
    values, differences = compare(read, **options)
    return RunComparison(runs, differences, values)


def write(runs: Sequence[Run], out: Path, *, every: bool = False, **options) -> pd.DataFrame:
    """Compare runs and write tables and figures to a folder; return the differences."""
    comparison = compared(runs, every=every, **options)
    comparison.write(out)
    return comparison.differences
