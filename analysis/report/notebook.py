"""A finished run in a notebook: its tables as tidy DataFrames, its pictures, and a page that sums it up."""

from __future__ import annotations

import difflib
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from PIL import Image

from analysis.metrics.registry import Metric, headline_metrics
from analysis.report.gallery import encode
from analysis.study import contrasts, indicators
from analysis.tables.registry import TABLES
from analysis.tables.similarities.similarities import pair_name
from analysis.tables.similarities.stored import StoredSimilarities
from probes.errors import UserError
from probes.runs import completeness
from probes.runs.store import KINDS, Run

SHOWN_TRIPLETS = 3
THUMBNAIL = 128  # pixels, of the longer side


def load_run(path: str | Path) -> LoadedRun:
    """Open a run directory; where parts of it are missing, say on stderr over how much it speaks.

    Raises
    ------
    UserError
        If there is no run at `path`, or it cannot be read.

    Examples
    --------
    >>> run = load_run("runs/first-light")  # doctest: +SKIP
    >>> run.gap.query("space == 'denoising' and site == 'unet.mid'")  # doctest: +SKIP
    """
    return LoadedRun(completeness.restrict_to_whole(Run.open(path)))


class LoadedRun:
    """One run; each table is read when it is first asked for.

    Attributes
    ----------
    samples : DataFrame
        One row per image: ``sample_id``, ``triplet``, ``prompt``, ``indicator``, ``word``, ``seed`` ...
        (without the image itself, which `image` gives).
    disparity : DataFrame
        One row per (space, site, step, metric, pair): mean over prompts with its interval.
    gap : DataFrame
        One row per (space, site, step, metric, contrast): gap with interval, p-values and the gaps of the
        controls.
    words : DataFrame
        One row per (sample, word): its heat map, row-major, ``height`` x ``width``.
    nouns : DataFrame
        A row a noun of a prompt: ``word``, ``lemma``, its characters and its word in ``words``.
    objects : DataFrame
        One row per detection or hidden noun: ``lemma``, ``best_word``, ``coverage``, ``group``.
    object_tests : DataFrame
        One row per (group, pair, object): presence, difference and bias score with intervals, p-values.

    `pairs` gives the similarities of a site, and `table` any other table that `tables` lists, such as
    ``gap_prompts`` with the gap of each triplet. Each of them raises `probes.errors.UserError` where the run does not
    hold it (yet).
    """

    def __init__(self, run: Run):
        self.run = run

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
        return self.run.words()

    @cached_property
    def disparity(self) -> pd.DataFrame:
        """One row per (space, site, step, metric, pair)."""
        return self.run.table("disparity")

    @cached_property
    def gap(self) -> pd.DataFrame:
        """One row per (space, site, step, metric, contrast)."""
        return self.run.table("gap")

    @cached_property
    def nouns(self) -> pd.DataFrame:
        """A row a noun of a prompt."""
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
        return pd.DataFrame({"table": names, "row": rows})

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
            A row a similarity: ``space``, ``site``, ``step`` (-1 where the site has none), ``timestep``, ``metric``,
            ``triplet``, ``seed``, ``pair``, ``value`` (in the units of the metric, NaN where there is none),
            ``reason`` why it is NaN, ``version``.

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
            there = list(dict.fromkeys(own if metric is None else f"{own}, {name}" for _, own, name in known))
            selection = ", ".join(filter(None, (site, metric)))
            near = difflib.get_close_matches(selection, there, 3, 0.3) or there[:3]
            raise UserError(
                f"{self.path}: expected a site and metric of this run, got {selection!r}: choose one of {len(there)},"
                f" such as {', '.join(near)}"
            )
        return found.tidy()

    @cached_property
    def similarities(self) -> StoredSimilarities:
        """All similarities of the run, as matrices; see `analysis.tables.similarities.similarities.Similarities`."""
        return StoredSimilarities(self.run)

    def image(self, sample_id: str) -> Image.Image:
        """One picture, RGB."""
        return self.run.image(sample_id)

    def triplet(self, number: int, seed: int | None = None) -> dict[str, Image.Image]:
        """Return the pictures of one triplet and seed (the first seed if none is given) by indicator.

        Raises
        ------
        UserError
            If the run holds no such triplet and seed.
        """
        rows = self.samples[self.samples["triplet"] == number]
        seed = rows["seed"].iloc[0] if seed is None and len(rows) else seed
        rows = rows[rows["seed"] == seed]
        if rows.empty:
            found = f"got triplet {number}, seed {seed}"
            raise UserError(
                f"{self.path}: expected a triplet and a seed of this run, {found}: see run.samples"
            )
        return dict(zip(rows["indicator"], self.run.images(rows["sample_id"])))

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

    def __repr__(self) -> str:
        parts = [kind for kind in KINDS if self.run.parts(kind)]
        there = ", ".join(dict.fromkeys([*parts, *self.run.tables()])) or "nothing yet"
        return f"LoadedRun({str(self.path)!r}: {self.run.config.model_name}, {self.run.status}; {there})"

    def _repr_html_(self) -> str:
        """Show the first triplets and the headline numbers; what is not there yet is said in its place."""
        from analysis.report.environment import environment  # what draws figures, too

        parts: dict[str, Any] = {}
        for name, read in (("triplets", self._first_triplets), ("numbers", self._numbers)):
            try:
                parts[name] = read()
            except UserError as error:
                parts[name] = str(error)
        people = indicators(self.run.config)
        template = environment().get_template("notebook.html.j2")
        return template.render(run=self.run, people=people, thumbnail=THUMBNAIL, **parts)

    def _first_triplets(self) -> list[list[dict[str, str] | None]]:
        """Of each of the first triplets the picture and the prompt of every indicator; None where there is none."""
        rows = []
        for number in self.samples["triplet"].drop_duplicates().head(SHOWN_TRIPLETS):
            first = self.samples[self.samples["triplet"] == number]
            prompts, images = dict(zip(first["indicator"], first["prompt"])), self.triplet(number)
            rows.append(
                [
                    {"source": _thumbnail(images[name]), "prompt": prompts[name]} if name in images else None
                    for name in self.run.config.indicators
                ]
            )
        return rows

    def _numbers(self) -> dict[str, Any]:
        """The headline metrics, the mean of every pair with the reference, and the rows of ``gap`` of each contrast."""
        metrics = self._metrics()
        return {
            "metrics": metrics,
            "pairs": {
                pair: [self._cell(metric, pair, "mean") for metric in metrics]
                for pair in self._reference_pairs()
            },
            "gaps": {
                first: [self._gap_row(metric, f"{first}-{second}") for metric in metrics]
                for first, second in contrasts(self.run.config)
            },
        }

    def _metrics(self) -> list[Metric]:
        """The headline metrics that this run holds."""
        metrics = headline_metrics(self.run.config.measure.text_readout)
        return [metric for metric in metrics if len(metric.rows_of(self.disparity))]

    def _reference_pairs(self) -> list[str]:
        names, reference = [member.name for member in indicators(self.run.config)], self.run.config.reference
        return [pair_name(reference, name, names) for name in names if name != reference]

    def _cell(self, metric: Metric, pair: str, column: str) -> float:
        rows = metric.rows_of(self.disparity)
        rows = rows[rows["pair"] == pair]
        return float(rows[column].iloc[0]) if len(rows) else float("nan")

    def _gap_row(self, metric: Metric, contrast: str) -> dict[str, Any] | None:
        rows = metric.rows_of(self.gap)
        return next(iter(rows[rows["contrast"] == contrast].to_dict("records")), None)


def _thumbnail(image: Image.Image) -> str:
    """A picture as a ``data:`` address: PNG, its longer side reduced to `THUMBNAIL`."""
    image = image.copy()
    image.thumbnail((THUMBNAIL, THUMBNAIL))
    return encode(image, THUMBNAIL)
