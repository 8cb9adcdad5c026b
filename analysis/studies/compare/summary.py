"""Several runs side by side: what is said of each gap, tables, figures and a page in a folder."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.metrics.registry import Metric, headline_metrics
from analysis.report.environment import environment
from analysis.report.figures.rows import draw_forest
from analysis.report.figures.style import Drawn, files, inline_svg
from analysis.report.format import counted, listed, number, p_value, with_interval
from analysis.studies.compare.differences import FEWEST, TOO_FEW, compare, prompt_values
from analysis.study import contrasts
from probes.config.measurement import significance_level
from probes.config.schema import Config
from probes.csv_text import csv_bytes
from probes.errors import UserError, nearest
from probes.runs.parts import write_bytes
from probes.runs.run import Run

PAGE = "comparison.html"
NAMED = 3  # objects


def named(runs: Sequence[Run]) -> list[str]:
    """Return the names of runs, or of their folders where two have the same; refuse a run that is given twice."""
    paths = [run.path.resolve() for run in runs]
    for place, path in enumerate(paths):
        if path in paths[:place]:
            raise UserError(f"{runs[place].path}: expected different runs, got it twice: name another")
    for names in ([run.config.name for run in runs], [path.name for path in paths]):
        if len(set(names)) == len(names):
            return names
    return [str(run.path) for run in runs]


def verdict(row: Mapping[str, Any], metric: Metric, sides: Sequence[str], level: float) -> str:
    """A sentence on one gap in two runs; `row` is one of the differences, `sides` its contrast."""
    one, other, digits = row["first"], row["second"], metric.digits
    unit = f" ({metric.gap_unit})" if metric.unit else ""
    place, n = f"{row['what']}, {metric.symbol}{unit}", counted(row["n_prompts"], "prompt")
    difference, low, high = (row[name] for name in ("difference", "ci_low", "ci_high"))
    if row["n_prompts"] < FEWEST:
        amount = number(difference, digits, signed=True)
        return f"{place}: {TOO_FEW} ({n}, {FEWEST} are needed); {other} less {one} is {amount}."
    if difference == 0 and row["reason"]:
        return f"{place}: the gap is the same in {one} and {other} in every prompt ({n})."
    test = f"adjusted {p_value(row['p_adjusted'])}, {n}"
    if not row["p_adjusted"] < significance_level(level) or low <= 0 <= high:
        amount = with_interval(difference, low, high, digits, signed=True)
        text = f"the gaps of {one} and {other} cannot be told apart over all gaps compared"
        return f"{place}: {text}; {other} less {one} is {amount} ({test})."
    ends = (low, high) if difference > 0 else (-high, -low)
    amount = with_interval(abs(difference), *ends, digits)
    before, after = row["value_first"], row["value_second"]
    if before * after > 0:
        larger = "larger" if abs(after) > abs(before) else "smaller"
        return f"{place}: the gap of {other} is {larger} than that of {one} by {amount} ({test})."
    side = sides[0] if difference > 0 else sides[1]
    return f"{place}: the gap of {other} lies farther towards {side} than that of {one} by {amount} ({test})."


def summary(differences: pd.DataFrame, config: Config, level: float = 0.95) -> list[str]:
    """A verdict on each headline gap, and one on the presence of objects, of every two runs."""
    headline = {metric.place: metric for metric in headline_metrics(config.measure.text_readout)}
    sides = {"-".join(contrast): contrast for contrast in contrasts(config)}
    lines = [
        verdict(row, headline[row["space"], row["site"], row["metric"]], sides[row["what"]], level)
        for row in differences[differences["kind"] == "gap"].to_dict("records")
    ]
    objects = differences[differences["kind"] == "presence"]
    for (one, other, what), rows in objects.groupby(["first", "second", "what"], sort=False):
        text = f"{what}, presence of objects"
        if rows["n_prompts"].max() < FEWEST:
            lines.append(f"{text}: {TOO_FEW}.")
            continue
        significant = rows[
            (rows["p_adjusted"] < significance_level(level))
            & ~((rows["ci_low"] <= 0) & (rows["ci_high"] >= 0))
        ]
        named = [
            f"{row.metric} {with_interval(row.difference, row.ci_low, row.ci_high, 2, signed=True)}"
            for row in significant.sort_values("difference", key=abs, ascending=False)
            .head(NAMED)
            .itertuples()
        ]
        which = f": {listed(named)}" if named else ""
        lines.append(
            f"{text}: {len(significant)} of {counted(len(rows), 'object')} differ between {one} and {other}{which}."
        )
    return lines or ["no headline gap is common to the runs"]


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
    level : float
        Of the intervals.
    """

    runs: Sequence[Run]
    differences: pd.DataFrame
    values: pd.DataFrame
    level: float = 0.95

    @property
    def table(self) -> pd.DataFrame:
        """The differences."""
        return self.differences

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
        drawn = self._figures()
        chosen = next(iter(drawn), "") if contrast is None else contrast
        if chosen not in drawn:
            raise UserError(f"contrast: {nearest('contrast', chosen, drawn)}")
        return drawn[chosen]

    def write(self, out: str | Path) -> Path:
        """Write ``differences.csv``, ``values.csv``, figures and page to a folder; return it."""
        out, figures = Path(out), list(self._figures().values())
        for name in ("values", "differences"):
            write_bytes(out / f"{name}.csv", csv_bytes(getattr(self, name)))
        for drawn in figures:
            for name, data in files(drawn).items():
                write_bytes(out / name, data)
        template = environment().get_template("analysis.studies.compare/page.html.j2")
        page = template.render(names=named(self.runs), lines=self._lines(), figures=figures, level=self.level)
        write_bytes(out / PAGE, page.encode())
        return out

    def _figures(self) -> dict[str, Drawn]:
        """The figures by contrast."""
        config = self.runs[0].config
        metrics = headline_metrics(config.measure.text_readout)
        figures = {
            "-".join(contrast): draw_forest(
                self.values, self.differences, metrics, contrast, config.reference
            )
            for contrast in contrasts(config)
        }
        return {name: figure for name, figure in figures.items() if figure is not None}

    def _lines(self) -> list[str]:
        return summary(self.differences, self.runs[0].config, self.level)

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        plots = "".join(f"<div>{inline_svg(drawn)}</div>" for drawn in self._figures().values())
        return f"<pre>{html.escape(repr(self))}</pre>{plots}"


def compared(runs: Sequence[Run], **options) -> RunComparison:
    """Compare runs; `options` are those of `analysis.studies.compare.differences.compare`."""
    by_name = dict(zip(named(runs), runs, strict=True))
    values, differences = compare({name: prompt_values(run) for name, run in by_name.items()}, **options)
    return RunComparison(runs, differences, values, options.get("level", 0.95))
