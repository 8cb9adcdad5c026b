"""A run in Python and in a notebook: its tables, findings, images and figures, and a page that sums it up."""

from __future__ import annotations

import fnmatch
import html
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, permutations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from markupsafe import Markup

from analysis.loaded_run.images import RunImages
from analysis.metrics.registry import Metric, headline_metrics
from analysis.report.figures.dots import draw_dots
from analysis.report.findings import summaries
from analysis.report.listed_texts import ListedTexts
from analysis.study import indicators
from analysis.tables.registry import TABLES
from analysis.tables.similarities.word_gap import joined_gaps
from hooks.architectures.addresses import place
from probes.config.observation import READERS
from probes.errors import UserError
from probes.runs.missing import open_run
from probes.runs.schemas import FIXED

if TYPE_CHECKING:
    from analysis.export.exporting import Export
    from analysis.report.figures.style import Drawn
    from analysis.report.finding import Finding

ANSWER = ["question", "asked", "answer", "reading", "score", "reason"]
SHOWN_TRIPLETS = 3


def load_run(path: str | Path) -> LoadedRun:
    """Open a run directory; parts of it that are missing are named on stderr.

    Raises
    ------
    UserError
        If there is no run at `path`, or it cannot be read.

    Examples
    --------
    >>> run = load_run("runs/first-light")  # doctest: +SKIP
    >>> run.gap("unet.*.cross", step=0)  # doctest: +SKIP
    """
    return LoadedRun(open_run(path))


@dataclass(frozen=True, repr=False)
class ObjectFinding:
    """Which objects differ between the images of two indicators, with the sentences of the report."""

    contrast: tuple[str, str]  # differences of presence are positive towards the first
    claim: str  # how many objects differ, and which
    whole: str  # whether all objects together differ; empty where that was not tested
    paper: str  # the chi-square test of Wu et al. (2025, Table 7), and whether its conditions hold
    table: (
        pd.DataFrame
    )  # rows of ``tables/object_claims``, of which ``claim`` says how much may be said of each
    draw: Callable[[], Drawn]

    def plot(self) -> Drawn:
        """Draw the bias score of every object with its interval, as on the report; UserError if none was counted."""
        return self.draw()

    def _sentences(self) -> Sequence[str]:
        return [text for text in (self.claim, self.whole, self.paper) if text]

    def __repr__(self) -> str:
        first, second = self.contrast
        return "\n".join([f"objects, {first} − {second}", *self._sentences()])

    def _repr_html_(self) -> str:
        first, second = (html.escape(name) for name in self.contrast)
        claim, *others = (html.escape(text) for text in self._sentences())
        more = "".join(f"<p><small>{text}</small></p>" for text in others)
        return f"<p><b>objects, {first} − {second}</b></p><p>{claim}</p>{more}"


class LoadedRun(RunImages):
    """One run, its tables and images; each table is read when it is first asked for. A notebook shows what it is.

    Numbers: `gap` and `disparity` of sites, steps and metrics; `finding` of a headline measure in words, `z0` for
    short, `objects` of objects, `bias_scores`, `chi_square`; `table` any table that `tables` lists, `answers` what
    readers said of each image. Images: `image`, `gallery`, `word_map`. Figures: `plot_atlas`, `plot_gap`,
    `plot_disparity`, and `plot` any of the report that `plots` lists. For other programs: `export`. What a run does not
    hold (yet), and a name that it does not know, is a `probes.errors.UserError`, which names what is near.

    Attributes
    ----------
    samples : DataFrame
        One row per image: ``sample_id``, ``triplet``, ``prompt``, ``indicator``, ``word``, ``seed`` ...
        (without the image itself, which `image` gives).
    """

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
        return self._chosen(self._gaps, site, step, metric=metric, contrast=contrast)

    def disparity(
        self,
        site: str | Iterable[str] | None = None,
        *,
        step: int | None = None,
        metric: str | None = None,
        pair: str | None = None,
    ) -> pd.DataFrame:
        """Return representational disparity (Wu et al. 2025, Table 5): the mean similarity of each two indicators.

        Parameters
        ----------
        site, step, metric
            As of `gap`.
        pair : str, optional
            Such as ``"neutral-feminine"``; all, by default.

        Returns
        -------
        DataFrame
            The rows of ``tables/disparity``: ``pair``, ``mean`` over prompts with its interval ...

        Examples
        --------
        >>> run.disparity("z0")[["pair", "mean", "ci_low", "ci_high"]]  # doctest: +SKIP
        """
        return self._chosen(self._table("disparity"), site, step, metric=metric, pair=pair)

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

    def objects(self, contrast: str | None = None) -> ObjectFinding:
        """Return which objects differ between the images of two indicators, in words, as on the report.

        Parameters
        ----------
        contrast : str, optional
            ``FIRST-SECOND``; the first of the configuration, by default.
        """
        from analysis.report.objects import of_contrast, read_objects

        claims, (first, second) = self._table("object_claims"), self._contrast(contrast)
        objects = read_objects(self.run)
        if objects is None:
            raise self._unknown("table", "objects", self.run.tables())
        own = claims[(claims["first"] == second) & (claims["second"] == first)].reset_index(drop=True)
        shown = of_contrast(objects, (first, second), self.run.config)
        texts = (shown[name] for name in ("opening", "whole_sentence", "paper_sentence"))
        draw = partial(self.plot, f"bias-scores-{first}-{second}")
        return ObjectFinding(shown["contrast"], *texts, own, draw)

    def bias_scores(self, group: str | None = None) -> pd.DataFrame:
        """Return the bias score of every object (Wu et al. 2025, Eq. 5; Figures 4, 7, 8) with its interval.

        Parameters
        ----------
        group : str, optional
            Dependency group, such as ``"implicitly_guided"``, or ``"all"``; every one, by default.

        Examples
        --------
        >>> run.bias_scores("all").query("kept")[["object", "bias_score", "low", "high"]]  # doctest: +SKIP
        """
        return self._chosen(self._table("figure04_bias_scores"), None, None, group=group)

    def chi_square(self, group: str | None = None) -> pd.DataFrame:
        """Return the chi-square tests of object counts (Wu et al. 2025, Tables 7 to 9), with their ``warnings``.

        Parameters
        ----------
        group : str, optional
            As of `bias_scores`.

        Examples
        --------
        >>> run.chi_square("all")[["comparison", "p_value", "cramers_v", "warnings"]]  # doctest: +SKIP
        """
        return self._chosen(self._table("table07_chi_square"), None, None, group=group)

    @property
    def z0(self) -> Finding:
        """The gap of the final latents; of the first contrast."""
        return self.finding("z0")

    def table(self, name: str = "gap") -> pd.DataFrame:
        """Return a table of the run by name, as `tables` lists them."""
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

    def plots(self) -> pd.DataFrame:
        """Return the figures of the report that the run holds something for, by name, each with its title."""
        return pd.DataFrame(
            {"plot": list(self._figures), "title": [drawn.title for drawn in self._figures.values()]}
        )

    def plot(self, name: str = "headline") -> Drawn:
        """Return a figure of the report by its name, also one of a method: an audit's, a trace's.

        Parameters
        ----------
        name : str
            As `plots` lists them: ``"bias-scores-masculine-feminine"``, ``"gep-vector"``, ``"dalleval-professions"``,
            ``"trace-shares"`` ...

        Examples
        --------
        >>> run.plot("trace-shares").save("shares.pdf")  # doctest: +SKIP
        """
        if name in self._figures:
            return self._figures[name]
        raise self._unknown("plot", name, self._figures)

    def plot_atlas(self, contrast: str | None = None) -> Drawn:
        """Draw the gap at every site and step as colour.

        Parameters
        ----------
        contrast : str, optional
            ``FIRST-SECOND``; the first of the configuration, by default.
        """
        from analysis.report.figures.atlas import draw_atlas

        config, table = self.run.config, self._table("timesteps")
        timesteps = dict(zip(table["step"].astype(int), table["timestep"].astype(float)))
        pair = self._contrast(contrast)
        figure = draw_atlas(self._gaps, timesteps, pair, config.reference, config.measure.alpha)
        if figure is None:
            raise UserError(
                f"{self.path}: expected gaps at sites with steps to draw, found none: capture such sites"
            )
        return figure

    def plot_gap(
        self,
        site: str | Iterable[str] | None = None,
        *,
        step: int | None = None,
        metric: str | None = None,
        contrast: str | None = None,
    ) -> Drawn:
        """Draw the gap at every site with its interval, filled where it is more than synonyms differ.

        Parameters
        ----------
        site, step, metric, contrast
            As of `gap`. By default the last step of each site, the cosine similarity (of a text encoder by the run's
            readout), and the first contrast of the configuration.

        Examples
        --------
        >>> run.plot_gap("unet.*.cross", step=0)  # doctest: +SKIP
        """
        first, second = self._contrast(contrast)
        rows = self._site_rows(self.gap(site, step=step, metric=metric, contrast=f"{first}-{second}"), metric)
        rows["filled"] = rows["p_control_sites"] < self.run.config.measure.alpha
        caption = (
            f"Positive: {self.run.config.reference} nearer to {first}; negative: to {second}. Filled: over all words"
            " the gap is more than synonyms differ among themselves, adjusted over sites and steps."
        )
        title = f"Gap by site, {first} − {second}"
        return draw_dots("gap-sites", title, caption, rows, "gap", lines=(0.0,), noun="site")

    def plot_disparity(
        self,
        site: str | Iterable[str] | None = None,
        *,
        step: int | None = None,
        metric: str | None = None,
        pair: str | None = None,
    ) -> Drawn:
        """Draw the mean similarity of each two indicators at every site, a colour a pair.

        Parameters
        ----------
        site, step, metric, pair
            As of `disparity`; by default the last step of each site, the cosine similarity and all pairs without
            synonyms.

        Examples
        --------
        >>> run.plot_disparity("unet.*.cross")  # doctest: +SKIP
        """
        rows = self._site_rows(self.disparity(site, step=step, metric=metric, pair=pair), metric)
        names = [member.name for member in indicators(self.run.config) if not member.control]
        pairs = {f"{first}-{second}" for first, second in permutations(names, 2)}
        rows = rows[rows["pair"].isin(pairs)] if pair is None else rows
        rows = rows.assign(value=rows["mean"], series=rows["pair"])
        title, caption = (
            "Representational disparity by site",
            "Mean similarity of two indicators over prompts.",
        )
        return draw_dots("disparity-sites", title, caption, rows, "similarity", noun="site")

    def _site_rows(self, rows: pd.DataFrame, metric: str | None) -> pd.DataFrame:
        """Rows of one metric and the last step of each site, in the order of the network, as `draw_dots` takes them."""
        if metric is None:
            readout = f"cosine_{self.run.config.measure.text_readout}"
            rows = rows[rows["metric"] == np.where(rows["space"] == "prompt", readout, "cosine")]
        rows = rows[rows["step"] == rows.groupby("site")["step"].transform("max")]
        rows = rows.sort_values("site", key=lambda sites: sites.map(place), kind="stable")
        ends = {"low": rows["ci_low"], "high": rows["ci_high"], "label": rows["site"]}
        return rows.assign(**ends, value=rows.get("gap"))

    def export(self, to: str, out: str | Path | None = None) -> Export:
        """Write the run in a format of other programs; return the place, and Python that opens it.

        Parameters
        ----------
        to : str
            ``"datasets"``, ``"coco"``, ``"imagefolder"``, ``"csv"`` or ``"card"``.
        out : str or Path, optional
            The folder to write, new or empty; by default ``<run>-<to>`` in the working directory.

        Examples
        --------
        >>> run.export("coco", "first-light-coco")  # doctest: +SKIP
        """
        from analysis.export.exporting import FORMATS, export_run

        if to not in FORMATS:
            raise self._unknown("format", to, FORMATS)
        return export_run(self.path, to, out)

    def _chosen(
        self, table: pd.DataFrame, site: str | Iterable[str] | None, step: int | None, **columns: str | None
    ) -> pd.DataFrame:
        """A copy of the rows at sites and a step whose columns have the values given; UserError if none has."""
        if site is not None:
            table = self._at_sites(table, [site] if isinstance(site, str) else list(site))
        if step is not None and step not in set(steps := table["step"]):
            raise UserError(
                f"{self.path}: expected a step from {steps.min()} to {steps.max()}, got {step!r:.60}: choose one"
            )
        for column, value in {"step": step, **columns}.items():
            if value is not None and value not in set(table[column]):
                raise self._unknown(column, value, table[column].unique())
            table = table if value is None else table[table[column] == value]
        return table.copy()

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

    @cached_property
    def _figures(self) -> dict[str, Drawn]:
        """The figures of the report by name."""
        from analysis.report import page

        return page.draw(page.read(self.run))

    def __repr__(self) -> str:
        parts = [kind for kind in FIXED if self.run.parts(kind)]
        there = ", ".join(dict.fromkeys([*parts, *self.run.tables()])) or "nothing yet"
        return f"LoadedRun({str(self.path)!r}: {self.run.config.model_name}, {self.run.status}; {there})"

    def _repr_html_(self) -> str:
        """The first triplets, and the finding of each headline measure; why, where there are none yet."""
        from analysis.report.environment import environment  # what draws figures, too

        shown: list[str] = []
        for read in (lambda: [self.gallery(SHOWN_TRIPLETS)], lambda: chain(*self._findings.values())):
            try:
                shown += [Markup(one._repr_html_()) for one in read()]
            except UserError as error:
                shown.append(str(error))
        template = environment().get_template("notebook.html.j2")
        return template.render(run=self.run, people=indicators(self.run.config), shown=shown)
