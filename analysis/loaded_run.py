"""A run in Python and in a notebook: its tables, findings, images and figures, and a page that sums it up."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from PIL import Image

from analysis.metrics.registry import Metric, headline_metrics
from analysis.report import gallery as galleries
from analysis.report.findings import summaries
from analysis.report.format import number
from analysis.report.shown import THUMBNAIL, Cell, Gallery, GalleryTriplet, Triplet
from analysis.study import contrasts, indicators
from analysis.tables.registry import TABLES
from analysis.tables.similarities.similarities import pair_name
from analysis.tables.similarities.stored import StoredSimilarities
from hooks.errors import HookError
from hooks.prompt.wordlist import Word, find, lower
from probes.errors import UserError, nearest
from probes.runs import completeness
from probes.runs.store import KINDS, Run

if TYPE_CHECKING:
    from analysis.export.exporting import Export
    from analysis.report.figures import Drawn
    from analysis.report.wording import Finding
    from hooks.prompt.wordmap import WordMap

SHOWN_TRIPLETS = 3


def load_run(path: str | Path) -> LoadedRun:
    """Open a run directory; where parts of it are missing, say on stderr over how much it speaks.

    Raises
    ------
    UserError
        If there is no run at `path`, or it cannot be read.

    Examples
    --------
    >>> run = load_run("runs/first-light")  # doctest: +SKIP
    >>> run.gap("unet.*.cross", step=0)  # doctest: +SKIP
    """
    return LoadedRun(completeness.restrict_to_whole(Run.open(path)))


class LoadedRun:
    """One run, its tables and images; each table is read when it is first asked for. A notebook shows what it is.

    Numbers: `gap` and `disparity` of sites, steps and metrics; `finding` of a headline measure in words, `z0`, `ssim`
    and `diff_pix` for short; `table` any other table that `tables` lists; `pairs` single similarities. Images: `image`,
    `triplet`, `gallery`, `word_map`. Figures: `plot_atlas`, `plot_gap`, `plot_forest`. For other programs: `export`.
    What a run does not hold (yet), and a name that it does not know, is a `probes.errors.UserError`, which names what
    is near.

    Attributes
    ----------
    samples : DataFrame
        One row per image: ``sample_id``, ``triplet``, ``prompt``, ``indicator``, ``word``, ``seed`` ...
        (without the image itself, which `image` gives).
    words : DataFrame
        One row per (sample, word): its heat map, row-major, ``height`` x ``width``.
    nouns : DataFrame
        A row a noun of a prompt: ``word``, ``lemma``, its characters and its word in ``words``.
    objects : DataFrame
        One row per detection or hidden noun: ``lemma``, ``best_word``, ``coverage``, ``group``.
    object_tests : DataFrame
        One row per (group, pair, object): presence, difference and bias score with intervals, p-values.
    """

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
        return self.run.words()

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
            there = dict.fromkeys(own if metric is None else f"{own}, {name}" for _, own, name in known)
            what = "site" if metric is None else "site and metric"
            raise self._unknown(what, ", ".join(filter(None, (site, metric))), there)
        return found.tidy()

    @cached_property
    def similarities(self) -> StoredSimilarities:
        """All similarities of the run, as matrices; see `analysis.tables.similarities.similarities.Similarities`."""
        return StoredSimilarities(self.run)

    def image(
        self, sample: str | int, indicator: str | None = None, *, seed: int | None = None
    ) -> Image.Image:
        """Return one image, RGB.

        Parameters
        ----------
        sample : str or int
            A ``sample_id``; or the number of a triplet, of which `indicator` and `seed` then choose an image (the
            reference and the first seed, by default).

        Raises
        ------
        UserError
            The run holds no such image; the line names the nearest.

        Examples
        --------
        >>> run.image("t00000-s0-feminine")  # doctest: +SKIP
        >>> run.image(0, "feminine")  # doctest: +SKIP
        """
        return self.run.image(self._sample(sample, indicator, seed)["sample_id"])

    def triplet(self, number: int, seed: int | None = None) -> Triplet:
        """Return the images of one triplet and seed (the first seed if none is given) by indicator.

        Raises
        ------
        UserError
            If the run holds no such triplet and seed.
        """
        return Triplet(self._shown(*self._draw(number, seed)))

    def gallery(
        self,
        limit: int = 8,
        *,
        word: str | None = None,
        prompt: str | None = None,
        triplets: Sequence[int] | None = None,
        sort: str = "number",
    ) -> Gallery:
        """Return triplets for a notebook, one row per prompt and seed, one column per indicator.

        Parameters
        ----------
        limit : int
            At most so many: the first seed of every prompt, then the second of every prompt ...
        word : str, optional
            The word or phrase whose heat map lies over the images.
        prompt : str, optional
            Only triplets in one of whose prompts this text stands, whatever its case.
        triplets : sequence of int, optional
            Only these.
        sort : {"number", "gap"}
            ``gap``: by the size of the triplet's own gap in the primary measure, the largest first.

        Raises
        ------
        UserError
            No triplet is left, the word stands in no prompt of them, or the run is not measured and to be sorted.
        """
        if sort not in ("number", "gap"):
            raise self._unknown("sort", sort, ("number", "gap"))
        samples = self.samples
        if prompt is not None:
            holding = samples["prompt"].str.contains(prompt, case=False, regex=False)
            if not holding.any():
                raise self._unknown("text of a prompt", prompt, samples["prompt"].drop_duplicates())
            samples = samples[samples["triplet"].isin(samples["triplet"][holding])]
        if triplets is not None:
            for one in triplets:
                self._draw(one, None)
            samples = samples[samples["triplet"].isin(list(triplets))]
        if word is not None:
            samples = self._having(word, samples)
        draws = galleries.choose(samples, len(samples))
        if sort == "gap":
            sizes = {draw: abs(gap) for draw in draws if (gap := self._own_gap(*draw)) is not None}
            draws = sorted(draws, key=lambda draw: -sizes.get(draw, -1.0))
        chosen = [self._shown(*draw, word=word) for draw in draws[:limit]]
        return Gallery(chosen, len(samples[["triplet", "seed"]].drop_duplicates()), word or "")

    def word_map(
        self,
        sample: str | int,
        word: str,
        *,
        indicator: str | None = None,
        seed: int | None = None,
        occurrence: int | None = None,
    ) -> WordMap:
        """Return the heat map of a word or phrase in one image, which ``.overlay()`` lays over the image.

        Parameters
        ----------
        sample, indicator, seed
            As of `image`.
        word : str
            Case and punctuation are ignored.
        occurrence : int, optional
            Which of several, from 0; the mean over the tokens of all of them, by default.

        Raises
        ------
        UserError
            The run holds no heat maps or no such image, or the word is not in its prompt; the line names the nearest.

        Examples
        --------
        >>> run.word_map("t00000-s0-neutral", "umbrella").overlay()  # doctest: +SKIP
        """
        return self._word_map(self._sample(sample, indicator, seed), word, occurrence)

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
        return self._drawn(draw_atlas(self._table("gap"), self._timesteps, chosen, self.run.config.reference))

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
            steps = draw_steps(self._table("gap"), self._timesteps, [chosen], config.reference, config.unit)
            return self._drawn(steps)
        rows = self.gap(site, metric=metric)
        rows = rows[rows["metric"] == rows["metric"].iloc[0]]
        return self._drawn(draw_sites(rows, self._timesteps, chosen, config.reference, config.unit))

    def plot_forest(self) -> Drawn:
        """Draw the headline gaps with their intervals: between the indicators' words, and over all words.

        Raises
        ------
        UserError
            The run is not measured, or has no contrast.
        """
        from analysis.report.figures import with_ends
        from analysis.report.figures.headline import draw_headline

        config = self.run.config
        pairs = contrasts(config)
        findings = with_ends(self._table("findings"), self._table("gap"))
        return self._drawn(draw_headline(findings, self._metrics(), pairs, config.reference, config.unit))

    def export(
        self,
        to: str,
        out: str | Path | None = None,
        *,
        repo: str = "",
        public: bool = False,
        token: str | None = None,
    ) -> Export:
        """Write the run in a format of other programs; return the place, and Python that opens it.

        Parameters
        ----------
        to : str
            ``"coco"``, ``"fiftyone"``, ``"imagefolder"``, ``"csv"`` or ``"hub"``.
        out : str or Path, optional
            The folder to write, new or empty; by default ``<run>-<to>`` in the working directory.
        repo, public, token
            Of ``"hub"`` alone, as of `push_to_hub`; without `repo` nothing leaves this machine.

        Raises
        ------
        UserError
            There is no such format, the folder is not empty, or the Hub refuses.

        Examples
        --------
        >>> run.export("coco", "first-light-coco")  # doctest: +SKIP
        """
        from analysis.export.exporting import export_run
        from analysis.export.registry import FORMATS

        if to not in FORMATS:
            raise self._unknown("format", to, FORMATS)
        return export_run(self.path, to, out, repo=repo, public=public, token=token)

    def push_to_hub(self, repo: str, *, public: bool = False, token: str | None = None) -> Export:
        """Upload the run to the Hugging Face Hub as a dataset; return its address, and Python that loads it.

        Parameters
        ----------
        repo : str
            ``user/name``.
        public : bool
            Whether a repository that is made for it can be seen by everybody; one that is there stays as it is.
        token : str, optional
            Of the Hub; by default the one that `huggingface_hub` finds.

        Raises
        ------
        UserError
            The Hub refuses, or is not reached.
        """
        return self.export("hub", repo=repo, public=public, token=token)

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
    def _findings(self) -> dict[str, list[Finding]]:
        """By contrast."""
        tables = (self._table(name) for name in ("gap", "specifications", "agreement"))
        return {"-".join(one.contrast): one.findings for one in summaries(*tables, self.run.config)}

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

    def _sample(self, sample: str | int, indicator: str | None, seed: int | None) -> pd.Series:
        """The row of a sample by its id, or by its triplet, indicator and seed."""
        if isinstance(sample, str):
            rows = self.samples[self.samples["sample_id"] == sample]
            if rows.empty:
                raise self._unknown("sample", sample, self.samples["sample_id"])
            return rows.iloc[0]
        number, seed = self._draw(sample, seed)
        rows = self._members(number, seed)
        name = indicator if indicator is not None else self.run.config.reference
        if name not in set(rows["indicator"]):
            raise self._unknown("indicator", name, rows["indicator"])
        return rows[rows["indicator"] == name].iloc[0]

    def _draw(self, number: int, seed: int | None) -> tuple[int, int]:
        """A triplet and its seed, the first where none is given."""
        rows = self.samples[self.samples["triplet"] == number]
        rows = rows if seed is None else rows[rows["seed"] == seed]
        if rows.empty:
            found = f"got triplet {number}, seed {'any' if seed is None else seed}"
            numbers, seeds = self.samples["triplet"], sorted(self.samples["seed"].unique())
            raise UserError(
                f"{self.path}: expected a triplet and a seed of this run, {found}: its triplets are {numbers.min()} to"
                f" {numbers.max()}, its seeds {', '.join(map(str, seeds[:8]))}{' ...' if len(seeds) > 8 else ''}"
            )
        return int(number), int(rows["seed"].iloc[0])

    def _members(self, number: int, seed: int) -> pd.DataFrame:
        """The samples of a triplet and seed, in the order of the indicators."""
        rows = self.samples[(self.samples["triplet"] == number) & (self.samples["seed"] == seed)]
        order = {name: place for place, name in enumerate(self.run.config.indicators)}
        return rows.sort_values("indicator", key=lambda names: names.map(order), kind="stable")

    def _shown(self, number: int, seed: int, word: str | None = None) -> GalleryTriplet:
        rows = self._members(number, seed)
        images = self.run.images(rows["sample_id"])
        cells = []
        for (_, row), image in zip(rows.iterrows(), images, strict=True):
            if word is not None and _holds(row, word):
                image = self._word_map(row, word, image=image).overlay()
            cells.append(Cell(row["sample_id"], row["indicator"], row["prompt"], image))
        lead = rows[rows["indicator"] == self.run.config.reference]
        prompt = (lead if len(lead) else rows)["prompt"].iloc[0]
        return GalleryTriplet(number, seed, prompt, cells, self._gap_line(number, seed))

    @cached_property
    def _own_gaps(self) -> pd.DataFrame | None:
        """The gaps of the triplets in the primary measure, of the first contrast; None before they are measured."""
        if "gap_prompts" not in self.run.tables() or not contrasts(self.run.config):
            return None
        gaps = galleries.primary_gaps(self._table("gap_prompts"), self.run.config)
        return gaps[gaps["contrast"] == "-".join(self._contrast(None))]

    def _own_gap(self, number: int, seed: int) -> float | None:
        """The gap of a triplet, or of its seed where seeds have gaps of their own."""
        if self._own_gaps is None:
            raise UserError(
                f"{self.path}: expected gaps of triplets to sort by, found none: run --stage measure"
            )
        rows = self._own_gaps[self._own_gaps["triplet"] == number]
        rows = rows[rows["seed"] == seed] if "seed" in rows else rows
        gap = float(rows["gap"].iloc[0]) if len(rows) else float("nan")
        return gap if np.isfinite(gap) else None

    def _gap_line(self, number: int, seed: int) -> str:
        """The gap of a triplet in words; nothing where there is none."""
        if self._own_gaps is None or (gap := self._own_gap(number, seed)) is None:
            return ""
        key = self.run.config.measure.primary
        metric = next((metric for metric in headline_metrics() if metric.key == key), None)
        first, second = self._contrast(None)
        return f"gap in {metric.symbol if metric else key}, {first} − {second}: {_signed(gap, metric)}"

    def _having(self, word: str, samples: pd.DataFrame) -> pd.DataFrame:
        """The samples of triplets in one of whose prompts a word stands."""
        holding = samples.apply(lambda row: _holds(row, word), axis=1)
        if not holding.any():
            known = dict.fromkeys(one for words in samples["words"] for one in words)
            raise self._unknown("word of a prompt", word, known)
        return samples[samples["triplet"].isin(samples["triplet"][holding])]

    def _word_map(
        self,
        row: pd.Series,
        word: str,
        occurrence: int | None = None,
        image: Image.Image | None = None,
    ) -> WordMap:
        """The map of a word in the image of a sample."""
        from hooks.prompt.wordmap import WordMap

        words = _words(row)
        maps = self.run.of_samples("words", [row["sample_id"]])
        if maps is None:
            raise UserError(
                f"{self.path}: expected heat maps of words, found none: set capture.words to true and run again"
            )
        try:
            positions = find(words, word, occurrence)
        except HookError as error:
            if _holds(row, word):
                raise UserError(f"{self.path}: {row['sample_id']}: {error}") from None
            known = dict.fromkeys(one.text for one in words)
            raise UserError(f"{self.path}: {row['sample_id']}: {nearest('word', word, known)}") from None
        shares = {
            index: shared
            for index, one in enumerate(words)
            if (shared := len(set(one.positions) & set(positions)))
        }
        maps = maps[maps["word_index"].isin(list(shares))]
        if maps.empty:
            raise UserError(f"{self.path}: {row['sample_id']}: expected a heat map of {word!r}, found none")
        weights = maps["word_index"].map(shares).to_numpy(float)
        heat = np.average(np.stack(maps["heat"].to_list()).astype(float), axis=0, weights=weights)
        first = maps.iloc[0]
        image = self.run.image(row["sample_id"]) if image is None else image
        return WordMap(
            values=heat.astype(np.float32).reshape(first["height"], first["width"]),
            word=word,
            positions=positions,
            row=0,
            definition=first["definition"],
            version=first["version"],
            size=(image.height, image.width),
            _image=image,
        )

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

    def _first_triplets(self) -> list[list[Cell | None]]:
        """Of each of the first triplets the picture and the prompt of every indicator; None where there is none."""
        rows = []
        for triplet in self.samples["triplet"].drop_duplicates().head(SHOWN_TRIPLETS):
            cells = {cell.indicator: cell for cell in self._shown(*self._draw(triplet, None)).cells}
            rows.append([cells.get(name) for name in self.run.config.indicators])
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
        return [metric for metric in metrics if len(metric.rows_of(self._table("disparity")))]

    def _reference_pairs(self) -> list[str]:
        names, reference = [member.name for member in indicators(self.run.config)], self.run.config.reference
        return [pair_name(reference, name, names) for name in names if name != reference]

    def _cell(self, metric: Metric, pair: str, column: str) -> float:
        rows = metric.rows_of(self._table("disparity"))
        rows = rows[rows["pair"] == pair]
        return float(rows[column].iloc[0]) if len(rows) else float("nan")

    def _gap_row(self, metric: Metric, contrast: str) -> dict[str, Any] | None:
        rows = metric.rows_of(self._table("gap"))
        return next(iter(rows[rows["contrast"] == contrast].to_dict("records")), None)


def _words(row: pd.Series) -> list[Word]:
    """The words of a sample's prompt, as its first text encoder read them."""
    parts = zip(row["words"], row["word_spans"], row["word_positions"], strict=True)
    return [
        Word(
            text,
            lower(text),
            0,
            tuple(map(int, span)),
            tuple(map(int, positions)),
            cut_off=not len(positions),
        )
        for text, span, positions in parts
    ]


def _holds(row: pd.Series, word: str) -> bool:
    """Return whether a word or phrase stands in the prompt of a sample, and its tokens were read."""
    try:
        return bool(find(_words(row), word))
    except HookError:
        return False


def _signed(gap: float, metric: Metric | None) -> str:
    if metric is None:
        return number(gap, signed=True)
    return number(gap, metric.digits, signed=True) + (f" {metric.gap_unit}" if metric.unit else "")
