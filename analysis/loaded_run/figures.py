"""Figures of a run in Python."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

import pandas as pd

from analysis.loaded_run.tables import RunTables
from analysis.study import contrasts
from probes.errors import UserError

if TYPE_CHECKING:
    from analysis.report.figures import Drawn


class RunFigures(RunTables):
    """The figures of a run: some by a method with options, all of the report by name."""

    def plots(self) -> pd.DataFrame:
        """Return the figures of the report that the run holds something for, by name, each with its title.

        Raises
        ------
        UserError
            The run is not measured.
        """
        return pd.DataFrame(
            {"plot": list(self._figures), "title": [drawn.title for drawn in self._figures.values()]}
        )

    def plot(self, name: str) -> Drawn:
        """Return a figure of the report by its name, also one of a method: an audit's, a trace's.

        Parameters
        ----------
        name : str
            As `plots` lists them: ``"bias-scores-masculine-feminine"``, ``"gep-vector"``, ``"dalleval-professions"``,
            ``"trace-shares"`` ...

        Raises
        ------
        UserError
            The run is not measured, or holds nothing for such a figure; the line names the nearest.

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

        Raises
        ------
        UserError
            The run is not measured, has no such contrast, or captured no site that has steps.
        """
        from analysis.report.figures.atlas import draw_atlas

        chosen = self._contrast(contrast)
        config = self.run.config
        return self._drawn(
            draw_atlas(self._gaps, self._timesteps, chosen, config.reference, config.measure.alpha)
        )

    def plot_gap(
        self,
        site: str | Iterable[str] | None = None,
        *,
        metric: str | None = None,
        contrast: str | None = None,
    ) -> Drawn:
        """Draw the gap of chosen sites along the steps; of those without steps, along the sites.

        Parameters
        ----------
        site : str or iterable of str, optional
            As of `gap`; latents, noise predictions and the predicted image, by default.
        metric : str, optional
            By default the first that the sites have.
        contrast : str, optional
            As of `plot_atlas`.

        Raises
        ------
        UserError
            The run is not measured, or knows no such site or contrast.
        """
        from analysis.report.figures.lines import draw_sites, draw_steps

        chosen, config = self._contrast(contrast), self.run.config
        if site is None:
            steps = draw_steps(
                self._gaps,
                self._timesteps,
                [chosen],
                config.reference,
                config.unit,
                config.measure.alpha,
            )
            return self._drawn(steps)
        rows = self.gap(site, metric=metric)
        return self._drawn(
            draw_sites(rows, self._timesteps, chosen, config.reference, config.unit, config.measure.alpha)
        )

    def plot_forest(self) -> Drawn:
        """Draw the headline gaps with their intervals: between the indicators' words, and over all words.

        Raises
        ------
        UserError
            The run is not measured, or has no contrast.
        """
        from analysis.report.figures.headline import draw_headline
        from analysis.report.findings import findings_table

        config = self.run.config
        pairs = contrasts(config)
        findings = findings_table(self._summaries)
        return self._drawn(draw_headline(findings, self._metrics(), pairs, config.reference, config.unit))

    @cached_property
    def _figures(self) -> dict[str, Drawn]:
        """The figures of the report by name."""
        from analysis.report import page

        return page.draw(page.read(self.run))

    @cached_property
    def _timesteps(self) -> dict[int, float]:
        """Timestep of each call number."""
        table = self._table("timesteps")
        return dict(zip(table["step"].astype(int), table["timestep"].astype(float)))

    def _drawn(self, figure: Drawn | None) -> Drawn:
        if figure is None:
            raise UserError(
                f"{self.path}: expected gaps to draw, found none: the run has no contrast, or captured no such site"
            )
        return figure
