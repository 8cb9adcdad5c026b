"""A run in Python and in a notebook: its tables, findings, images and figures, and a page that sums it up."""

from __future__ import annotations

from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from markupsafe import Markup

from analysis.loaded_run.images import RunImages
from analysis.study import indicators
from probes.errors import UserError
from probes.runs.missing import open_run
from probes.runs.schemas import FIXED

if TYPE_CHECKING:
    from analysis.export.exporting import Export
    from analysis.report.figures.style import Drawn

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


class LoadedRun(RunImages):
    """One run, its tables and images; each table is read when it is first asked for. A notebook shows what it is.

    Numbers: `gap` of sites, steps and metrics; `finding` of a headline measure in words, `z0` for short,
    `object_finding` of objects; `table` any table that `tables` lists; `pairs` single similarities, `answers` what
    readers said of each image. Images: `image`, `gallery`, `word_map`. Figures: `plot_atlas`, and `plot` any of the
    report that `plots` lists. For other programs: `export`. What a run does not hold (yet), and a name that it does not
    know, is a `probes.errors.UserError`, which names what is near.

    Attributes
    ----------
    samples : DataFrame
        One row per image: ``sample_id``, ``triplet``, ``prompt``, ``indicator``, ``word``, ``seed`` ...
        (without the image itself, which `image` gives).
    """

    def plots(self) -> pd.DataFrame:
        """Return the figures of the report that the run holds something for, by name, each with its title."""
        return pd.DataFrame(
            {"plot": list(self._figures), "title": [drawn.title for drawn in self._figures.values()]}
        )

    def plot(self, name: str) -> Drawn:
        """Return a figure of the report by its name, also one of a method: an audit's, a trace's.

        Parameters
        ----------
        name : str
            As `plots` lists them: ``"bias-scores-masculine-feminine"``, ``"gep-vectors"``, ``"dalleval-professions"``,
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
        from analysis.export.exporting import export_run
        from analysis.export.registry import FORMATS

        if to not in FORMATS:
            raise self._unknown("format", to, FORMATS)
        return export_run(self.path, to, out)

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
