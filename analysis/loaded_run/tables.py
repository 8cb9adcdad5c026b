"""Tables and findings of a run in Python."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analysis.metrics.registry import Metric, headline_metrics
from analysis.report.findings import Summary, summaries
from analysis.report.listed_texts import ListedTexts
from analysis.study import contrasts, indicators
from analysis.tables.registry import TABLES
from analysis.tables.similarities.similarities import pair_name
from analysis.tables.similarities.stored import StoredSimilarities
from probes.config.observation import READERS
from probes.errors import UserError, nearest
from probes.runs.run import Run

if TYPE_CHECKING:
    from analysis.loaded_run.object_finding import ObjectFinding
    from analysis.report.finding import Finding

ANSWER = ["question", "asked", "answer", "reading", "score", "reason"]


class RunTables:
    """The tables and findings of a run; each table is read when it is first asked for."""

    def __init__(self, run: Run):
        self.run = run
        self._tables: dict[str, pd.DataFrame] = {}

    @property
    def path(self) -> Path:
        """The run directory."""
        return self.run.path

    @property
    def config(self) -> dict[str, Any]:
        """The configuration as resolved, as plain data; ``run.config`` is the same with a type."""
        return self.run.resolved

    @cached_property
    def samples(self) -> pd.DataFrame:
        """One row per image."""
        return self.run.samples()

    @cached_property
    def words(self) -> pd.DataFrame:
        """One row per (sample, word)."""
        return self.run.read("words")

    def gap(
        self,
        site: str | Iterable[str] | None = None,
        *,
        step: int | None = None,
        metric: str | None = None,
        contrast: str | None = None,
    ) -> pd.DataFrame:
        """Return gaps: mean over prompts with interval, p-values, and the gap over all words of both sides.

        Parameters
        ----------
        site : str or iterable of str, optional
            Addresses or globs, whose ``*`` also matches dots: ``"unet.*.cross"``; or the name of a headline measure:
            ``"z0"``, ``"t"``, ``"ssim"``, ``"diff_pix"``. All sites, by default.
        step : int, optional
            Call of the denoiser, from 0; -1 of what has no steps. All, by default.
        metric : str, optional
            Such as ``"cosine"``; all, by default.
        contrast : str, optional
            ``FIRST-SECOND``, as ``"masculine-feminine"``: gaps are positive towards the first. All, by default.

        Returns
        -------
        DataFrame
            The rows of ``tables/gap``, one per (space, site, step, metric, contrast); `docs/reference/tables.md` says
            what each column holds.

        Raises
        ------
        UserError
            The run is not measured, or knows no such site, step, metric or contrast; the line names the nearest.

        Examples
        --------
        >>> run.gap("unet.*.cross", step=0)[["site", "gap", "ci_low", "ci_high"]]  # doctest: +SKIP
        """
        return self._selected("gap", site, {"step": step, "metric": metric, "contrast": contrast})

    def disparity(
        self,
        site: str | Iterable[str] | None = None,
        *,
        step: int | None = None,
        metric: str | None = None,
        pair: str | None = None,
    ) -> pd.DataFrame:
        """Return similarities of pairs of indicators: mean over prompts with its interval.

        Parameters
        ----------
        site, step, metric
            As of `gap`.
        pair : str, optional
            ``FIRST-SECOND``, as ``"neutral-feminine"``. All, by default.

        Returns
        -------
        DataFrame
            The rows of ``tables/disparity``, one per (space, site, step, metric, pair).

        Raises
        ------
        UserError
            As of `gap`.
        """
        return self._selected("disparity", site, {"step": step, "metric": metric, "pair": pair})

    def finding(self, measure: str, contrast: str | None = None) -> Finding:
        """Return the gap of a headline measure with what may be said of it, as on the report.

        Parameters
        ----------
        measure : str
            ``"z0"``, ``"t"``, ``"ssim"``, ``"diff_pix"``, or another headline measure that the run holds.
        contrast : str, optional
            ``FIRST-SECOND``; the first of the configuration, by default.

        Raises
        ------
        UserError
            The run is not measured, or knows no such measure or contrast.
        """
        first, second = self._contrast(contrast)
        found = {one.metric.key: one for one in self._findings[f"{first}-{second}"]}
        if measure not in found:
            raise self._unknown("measure", measure, found)
        return found[measure]

    def object_finding(self, contrast: str | None = None) -> ObjectFinding:
        """Return which objects differ between the images of two indicators, in words, as on the report.

        Parameters
        ----------
        contrast : str, optional
            ``FIRST-SECOND``; the first of the configuration, by default.

        Raises
        ------
        UserError
            Objects were not looked for, the run is not measured, or has no such contrast.
        """
        from analysis.loaded_run.object_finding import ObjectFinding
        from analysis.report.objects import of_contrast, read_objects
        from analysis.report.wording_objects import claimed
        from analysis.tables.objects.claims import DETECTOR, HEDGED, HINT, HOLDS

        claims, (first, second) = self._table("object_claims"), self._contrast(contrast)
        config, objects = self.run.config, read_objects(self.run)
        if objects is None:
            raise self._unknown("table", "objects", self.run.tables())
        own = claims[(claims["first"] == second) & (claims["second"] == first)]
        shown = of_contrast(objects, (first, second), config.reference, config.unit, config.measure.alpha)
        texts = (shown[name] for name in ("opening", "whole_sentence", "paper_sentence"))
        return ObjectFinding(shown["contrast"], *texts, claimed(own, HOLDS, HEDGED, HINT, DETECTOR))

    @property
    def z0(self) -> Finding:
        """The gap of the final latents; of the first contrast, as the next two are."""
        return self.finding("z0")

    @property
    def ssim(self) -> Finding:
        """The gap of the structural similarity of images."""
        return self.finding("ssim")

    @property
    def diff_pix(self) -> Finding:
        """The gap of the share of pixels that differ, in percentage points."""
        return self.finding("diff_pix")

    @cached_property
    def nouns(self) -> pd.DataFrame:
        """One row per noun of a prompt."""
        return self.run.table("nouns")

    @cached_property
    def objects(self) -> pd.DataFrame:
        """One row per detection or hidden noun."""
        return self.run.table("objects")

    @cached_property
    def object_tests(self) -> pd.DataFrame:
        """One row per (group, pair, object)."""
        return self.run.table("object_tests")

    def table(self, name: str) -> pd.DataFrame:
        """Return a table of the run by name."""
        return self.run.table(name)

    def tables(self) -> pd.DataFrame:
        """Return the names of the tables that the run holds, each with what a row of it is."""
        names = self.run.tables()
        rows = [TABLES[name].rows if name in TABLES else "" for name in names]
        return ListedTexts({"table": names, "row": rows})

    def columns(self, name: str) -> pd.DataFrame:
        """Return what every column of a table holds: ``column``, ``type``, ``unit``, ``meaning``.

        Raises
        ------
        UserError
            There is no such table; the line names the nearest.

        Examples
        --------
        >>> run.columns("gap").set_index("column").loc["p_control", "meaning"]  # doctest: +SKIP
        """
        from analysis.tables.registry import columns_of

        if name not in TABLES:
            raise self._unknown("table", name, TABLES)
        frame = ListedTexts([vars(column) for column in columns_of(name)])
        return ListedTexts(frame.rename(columns={"name": "column"}))

    def answers(self, question: str | None = None) -> pd.DataFrame:
        """Return what readers answered about every image (`observe.questions`).

        Parameters
        ----------
        question : str, optional
            Such as ``"gender"``; all, by default.

        Returns
        -------
        DataFrame
            One row per image, reader and question: ``answer`` as given, ``reading``, empty where undecided ...

        Raises
        ------
        UserError
            No reader was asked, or no such question.

        Examples
        --------
        >>> run.answers("gender").value_counts(["reader", "reading"])  # doctest: +SKIP
        """
        kinds = {name: f"attributes/{name}" for name in READERS}
        parts = [
            part.to_pandas().assign(reader=name)
            for name, kind in kinds.items()
            if self.run.parts(kind)
            for part in self.run.part_tables(kind)
        ]
        if not parts:
            raise UserError(f"{self.path}: expected answers of a reader, found none: set observe.questions")
        rows = pd.concat(parts, ignore_index=True)
        if question is not None and question not in set(rows["question"]):
            raise self._unknown("question", question, rows["question"].unique())
        own = rows if question is None else rows[rows["question"] == question]
        return own[["sample_id", "reader", *ANSWER]].reset_index(drop=True)

    def pairs(self, *, site: str | None = None, metric: str | None = None) -> pd.DataFrame:
        """Return single similarities, read from where they are stored: those of a site, of a metric, or of both.

        Parameters
        ----------
        site : str, optional
            Such as ``"unet.mid"``; default every site, which a large run has no memory for.
        metric : str, optional
            Such as ``"cosine"``; default every metric.

        Returns
        -------
        DataFrame
            One row per similarity: ``space``, ``site``, ``step`` (-1 where the site has none), ``timestep``,
            ``metric``, ``triplet``, ``seed``, ``pair``, ``value`` (in the units of the metric, NaN where there is
            none), ``reason`` why it is NaN, ``version``.

        Raises
        ------
        UserError
            If the run is not measured, or holds no such similarity.

        Examples
        --------
        >>> run.pairs(site="unet.mid").groupby(["pair", "step"])["value"].mean()  # doctest: +SKIP
        """
        found = self.similarities.select(
            lambda _, own, name: (site is None or own == site) and (metric is None or name == metric)
        )
        if not found.keys:
            known = self.similarities.keys
            there = dict.fromkeys(own if metric is None else f"{own}, {name}" for _, own, name in known)
            what = "site" if metric is None else "site and metric"
            raise self._unknown(what, ", ".join(filter(None, (site, metric))), there)
        return found.tidy()

    @cached_property
    def similarities(self) -> StoredSimilarities:
        """All similarities of the run, as matrices; see `analysis.tables.similarities.similarities.Similarities`."""
        return StoredSimilarities(self.run)

    def headline(self) -> pd.DataFrame:
        """Return the paper's table: pairs with the reference, at the end of each space.

        Returns
        -------
        DataFrame
            Rows are pairs, columns the metrics under the paper's names; the cells are means over prompts.
        """
        metrics = self._metrics()
        rows = {
            pair: [self._cell(metric, pair, "mean") for metric in metrics] for pair in self._reference_pairs()
        }
        return pd.DataFrame.from_dict(rows, orient="index", columns=[metric.symbol for metric in metrics])

    def _table(self, name: str) -> pd.DataFrame:
        """A result table, read once."""
        if name not in self._tables:
            self._tables[name] = self.run.table(name)
        return self._tables[name]

    def _selected(
        self, name: str, site: str | Iterable[str] | None, columns: dict[str, str | int | None]
    ) -> pd.DataFrame:
        """Rows of a table by their site and other columns."""
        table = self._table(name)
        if site is not None:
            table = self._at_sites(table, [site] if isinstance(site, str) else list(site))
        for column, wanted in columns.items():
            if wanted is None:
                continue
            rows = table[table[column] == wanted]
            if rows.empty and column == "step":
                steps = table["step"]
                raise UserError(
                    f"{self.path}: expected a step from {steps.min()} to {steps.max()}, got {wanted!r:.60}: choose one"
                )
            if rows.empty:
                raise self._unknown(column, wanted, table[column].unique())
            table = rows
        return table.copy()

    def _at_sites(self, table: pd.DataFrame, patterns: Sequence[str]) -> pd.DataFrame:
        """The rows of sites that match a pattern, or that a headline measure has."""
        measures = {metric.key: metric for metric in self._metrics()}
        sites = table["site"].unique()
        chosen = np.full(len(table), False)
        for pattern in patterns:
            matched = [site for site in sites if fnmatch.fnmatchcase(site, pattern)]
            if not matched and pattern in measures:
                chosen |= table.index.isin(measures[pattern].rows_of(table).index)
            elif not matched:
                raise self._unknown("site", pattern, [*sites, *measures])
            chosen |= table["site"].isin(matched).to_numpy(bool)
        return table[chosen]

    def _unknown(self, what: str, got: object, known: Iterable[str]) -> UserError:
        return UserError(f"{self.path}: {nearest(what, got, known)}")

    def _contrast(self, name: str | None) -> tuple[str, str]:
        """A contrast of the configuration by its name, or the first."""
        pairs = {f"{first}-{second}": (first, second) for first, second in contrasts(self.run.config)}
        chosen = next(iter(pairs), "") if name is None else name
        if chosen not in pairs:
            raise self._unknown("contrast", chosen, pairs)
        return pairs[chosen]

    @cached_property
    def _summaries(self) -> list[Summary]:
        """What is found of each contrast, as the report has it."""
        tables = (self._table(name) for name in ("gap", "specifications", "agreement"))
        return summaries(*tables, self.run.config, self._table("disparity"))

    @cached_property
    def _findings(self) -> dict[str, list[Finding]]:
        """By contrast."""
        return {"-".join(one.contrast): one.findings for one in self._summaries}

    def _metrics(self) -> list[Metric]:
        """The headline metrics that this run holds."""
        metrics = headline_metrics(self.run.config.measure.text_readout)
        return [metric for metric in metrics if len(metric.rows_of(self._table("disparity")))]

    def _reference_pairs(self) -> list[str]:
        names, reference = [member.name for member in indicators(self.run.config)], self.run.config.reference
        return [pair_name(reference, name, names) for name in names if name != reference]

    def _cell(self, metric: Metric, pair: str, column: str) -> float:
        rows = metric.rows_of(self._table("disparity"))
        rows = rows[rows["pair"] == pair]
        return float(rows[column].iloc[0]) if len(rows) else float("nan")
