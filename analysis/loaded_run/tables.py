"""Tables and findings of a run in Python."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from analysis.metrics.registry import Metric, headline_metrics
from analysis.report.findings import summaries
from analysis.report.listed_texts import ListedTexts
from analysis.study import contrasts
from analysis.tables.registry import TABLES
from analysis.tables.similarities.stored import StoredSimilarities
from analysis.tables.similarities.word_gap import joined_gaps
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

    @cached_property
    def samples(self) -> pd.DataFrame:
        """One row per image."""
        return self.run.samples()

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
            The rows of ``tables/gap``, one per (space, site, step, metric, contrast), each with its test against words
            (``tables/word_gap``) and of equivalence; `docs/reference/tables.md` says what each column holds.

        Examples
        --------
        >>> run.gap("unet.*.cross", step=0)[["site", "gap", "ci_low", "ci_high"]]  # doctest: +SKIP
        """
        table = self._gaps
        if site is not None:
            table = self._at_sites(table, [site] if isinstance(site, str) else list(site))
        if step is not None and step not in set(steps := table["step"]):
            raise UserError(
                f"{self.path}: expected a step from {steps.min()} to {steps.max()}, got {step!r:.60}: choose one"
            )
        for column, value in {"step": step, "metric": metric, "contrast": contrast}.items():
            if value is not None and value not in set(table[column]):
                raise self._unknown(column, value, table[column].unique())
            table = table if value is None else table[table[column] == value]
        return table.copy()

    def finding(self, measure: str, contrast: str | None = None) -> Finding:
        """Return the gap of a headline measure with what may be said of it, as on the report.

        Parameters
        ----------
        measure : str
            ``"z0"``, ``"t"``, ``"ssim"``, ``"diff_pix"``, or another headline measure that the run holds.
        contrast : str, optional
            ``FIRST-SECOND``; the first of the configuration, by default.
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
        """
        from analysis.loaded_run.object_finding import ObjectFinding
        from analysis.report.objects import of_contrast, read_objects
        from analysis.report.wording_objects import claimed
        from analysis.tables.objects.claims import DETECTOR, HEDGED, HINT, HOLDS

        claims, (first, second) = self._table("object_claims"), self._contrast(contrast)
        objects = read_objects(self.run)
        if objects is None:
            raise self._unknown("table", "objects", self.run.tables())
        own = claims[(claims["first"] == second) & (claims["second"] == first)]
        shown = of_contrast(objects, (first, second), self.run.config)
        texts = (shown[name] for name in ("opening", "whole_sentence", "paper_sentence"))
        return ObjectFinding(shown["contrast"], *texts, claimed(own, HOLDS, HEDGED, HINT, DETECTOR))

    @property
    def z0(self) -> Finding:
        """The gap of the final latents; of the first contrast."""
        return self.finding("z0")

    def table(self, name: str) -> pd.DataFrame:
        """Return a table of the run by name."""
        return self.run.table(name)

    def tables(self) -> pd.DataFrame:
        """Return the names of the tables that the run holds, each with what a row of it is."""
        names = self.run.tables()
        rows = [TABLES[name].rows if name in TABLES else "" for name in names]
        return ListedTexts({"table": names, "row": rows})

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

        Examples
        --------
        >>> run.answers("gender").value_counts(["reader", "reading"])  # doctest: +SKIP
        """
        kinds = {name: f"attributes/{name}" for name in READERS}
        parts = [
            self.run.read(kind).assign(reader=name) for name, kind in kinds.items() if self.run.parts(kind)
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

        Examples
        --------
        >>> run.pairs(site="unet.mid").groupby(["pair", "step"])["value"].mean()  # doctest: +SKIP
        """
        similarities = StoredSimilarities(self.run)
        known = similarities.keys
        keys = [key for key in known if site in (None, key[1]) and metric in (None, key[2])]
        if not keys:
            names = dict.fromkeys(own if metric is None else f"{own}, {name}" for _, own, name in known)
            what = "site" if metric is None else "site and metric"
            raise self._unknown(what, ", ".join(filter(None, (site, metric))), names)
        return similarities.tidy(keys)

    def _table(self, name: str) -> pd.DataFrame:
        """A result table, read once."""
        if name not in self._tables:
            self._tables[name] = self.run.table(name)
        return self._tables[name]

    def _at_sites(self, table: pd.DataFrame, patterns: Sequence[str]) -> pd.DataFrame:
        """The rows of sites that match a pattern, or that a headline measure has."""
        measures = {metric.key: metric for metric in self._metrics()}
        sites, chosen = table["site"].unique(), table["site"].isin([])
        for pattern in patterns:
            matched = table["site"].isin(fnmatch.filter(sites, pattern))
            if not matched.any():
                if pattern not in measures:
                    raise self._unknown("site", pattern, [*sites, *measures])
                matched = table.index.isin(measures[pattern].rows_of(table).index)
            chosen |= matched
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
    def _gaps(self) -> pd.DataFrame:
        """The gaps with their tests."""
        return joined_gaps(self._table)

    @cached_property
    def _findings(self) -> dict[str, list[Finding]]:
        """By contrast, as the report has them."""
        found = summaries(self._gaps, self.run.config, self._table("disparity"))
        return {"-".join(one.contrast): one.findings for one in found}

    def _metrics(self) -> list[Metric]:
        """The headline metrics that this run holds."""
        metrics = headline_metrics(self.run.config.measure.text_readout)
        return [metric for metric in metrics if len(metric.rows_of(self._table("disparity")))]
