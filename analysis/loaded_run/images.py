"""Images of a run in Python: single ones, galleries, heat maps of words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from PIL import Image

from analysis.metrics.registry import headline_metrics
from analysis.report import gallery as galleries
from analysis.report.format import amount
from analysis.report.shown import Cell, Gallery, GalleryTriplet
from analysis.study import contrasts
from hooks.errors import HookError
from hooks.prompt.wordlist import Word, find, lower
from probes.errors import UserError, nearest
from probes.runs.run import Run

if TYPE_CHECKING:
    from hooks.prompt.wordmap import WordMap


class RunImages:
    """The images of a run, and the heat maps of the words of their prompts; each table is read once."""

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

    def image(
        self, sample: str | int, indicator: str | None = None, *, seed: int | None = None
    ) -> Image.Image:
        """Return one image, RGB.

        Parameters
        ----------
        sample : str or int
            A ``sample_id``; or the number of a triplet, of which `indicator` and `seed` then choose an image (the
            reference and the first seed, by default).

        Examples
        --------
        >>> run.image("t00000-s0-feminine")  # doctest: +SKIP
        >>> run.image(0, "feminine")  # doctest: +SKIP
        """
        return self.run.image(self._sample(sample, indicator, seed)["sample_id"])

    def gallery(
        self,
        limit: int = 8,
        *,
        word: str | None = None,
        objects: bool = False,
        sort: str = "number",
    ) -> Gallery:
        """Return triplets for a notebook, one row per prompt and seed, one column per indicator.

        The images of a run of one indicator lie side by side.

        Parameters
        ----------
        limit : int
            At most so many, of the first seed of every prompt, then of the second ...; they stand in the run's order.
        word : str, optional
            The word or phrase whose heat map lies over the images.
        objects : bool
            Outline the objects that were found, each in the colour of its dependency group; persons are left out.
        sort : {"number", "gap"}
            ``gap``: by the size of the triplet's own gap in the primary measure, the largest first.
        """
        if sort not in ("number", "gap"):
            raise self._unknown("sort", sort, ("number", "gap"))
        samples = self.samples
        if word is not None:
            samples = self._having(word, samples)
        draws = galleries.choose(samples, limit if sort == "number" else len(samples))
        if sort == "gap":
            if not self._own_gaps:
                raise UserError(
                    f"{self.path}: expected gaps of triplets to sort by, found none: run --stage measure"
                )
            draws = sorted(draws, key=lambda draw: -abs(self._own_gaps.get(tuple(draw), 0.0)))
        shown = [self._shown(*draw, word=word) for draw in draws[:limit]]
        shown = self._outlined(shown) if objects else shown
        return Gallery(shown, len(samples[["triplet", "seed"]].drop_duplicates()), word or "", objects)

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

        Examples
        --------
        >>> run.word_map("t00000-s0-neutral", "umbrella").overlay()  # doctest: +SKIP
        """
        return self._word_map(self._sample(sample, indicator, seed), word, occurrence)

    def _sample(self, sample: str | int, indicator: str | None, seed: int | None) -> pd.Series:
        """The row of a sample by its id, or by its triplet, indicator and seed."""
        if isinstance(sample, str):
            rows = self.samples[self.samples["sample_id"] == sample]
            if rows.empty:
                raise self._unknown("sample", sample, self.samples["sample_id"])
            return rows.iloc[0]
        rows = self._members(sample, seed)
        name = indicator if indicator is not None else self.run.config.reference
        if name not in set(rows["indicator"]):
            raise self._unknown("indicator", name, rows["indicator"])
        return rows[rows["indicator"] == name].iloc[0]

    def _members(self, number: int, seed: int | None) -> pd.DataFrame:
        """The samples of a triplet and seed, the first where none is given, in the order of the indicators."""
        rows = self.samples[self.samples["triplet"] == number]
        rows = rows if seed is None else rows[rows["seed"] == seed]
        if rows.empty:
            found = f"got triplet {number}, seed {'any' if seed is None else seed}"
            numbers, seeds = self.samples["triplet"], sorted(self.samples["seed"].unique())
            raise UserError(
                f"{self.path}: expected a triplet and a seed of this run, {found}: its triplets are {numbers.min()} to"
                f" {numbers.max()}, its seeds {', '.join(map(str, seeds[:8]))}{' ...' if len(seeds) > 8 else ''}"
            )
        rows = rows[rows["seed"] == rows["seed"].iloc[0]]
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
        noun = "triplet" if self.run.config.compares else "prompt"
        return GalleryTriplet(number, seed, prompt, cells, self._gap_line(number, seed), noun)

    def _outlined(self, triplets: Sequence[GalleryTriplet]) -> list[GalleryTriplet]:
        """The same triplets with the outlines of the objects found."""
        from analysis.report.overlays import DETECTED, overlays

        ids = [cell.sample_id for one in triplets for cell in one.cells]
        found = self._table("objects")
        found = found[found["sample_id"].isin(ids) & ~found["human"]]
        marks = overlays(found, self.run.rows_of_samples("objects", ids, DETECTED))
        return [
            replace(one, cells=[replace(cell, marks=marks.get(cell.sample_id, ())) for cell in one.cells])
            for one in triplets
        ]

    @cached_property
    def _own_gaps(self) -> dict[tuple[int, int], float]:
        """The gap of each triplet and seed in the primary measure, of the first contrast; none before."""
        if "gap_prompts" not in self.run.tables() or not contrasts(self.run.config):
            return {}
        gaps = galleries.primary_gaps(self._table("gap_prompts"), self.run.config).dropna(subset="gap")
        gaps = gaps[gaps["contrast"] == "-".join(self._contrast(None))]
        rows = (
            self.samples[["triplet", "seed"]].drop_duplicates().merge(gaps)
        )  # by seed where seeds have gaps
        return dict(zip(zip(rows["triplet"], rows["seed"]), rows["gap"]))

    def _gap_line(self, number: int, seed: int) -> str:
        """The gap of a triplet in words; nothing where there is none."""
        if (gap := self._own_gaps.get((number, seed))) is None:
            return ""
        key = self.run.config.measure.primary
        metric = next((metric for metric in headline_metrics() if metric.key == key), None)
        first, second = self._contrast(None)
        shown = amount(gap, metric, True) if metric else format(gap, "+.3g")
        return f"gap in {metric.symbol if metric else key}, {first} − {second}: {shown}"

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
        maps = self.run.rows_of_samples("words", [row["sample_id"]])
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

    def _table(self, name: str) -> pd.DataFrame:
        """A result table, read once."""
        if name not in self._tables:
            self._tables[name] = self.run.table(name)
        return self._tables[name]

    def _unknown(self, what: str, got: object, known: Iterable[str]) -> UserError:
        return UserError(f"{self.path}: {nearest(what, got, known)}")

    def _contrast(self, name: str | None) -> tuple[str, str]:
        """A contrast of the configuration by its name, or the first."""
        pairs = {f"{first}-{second}": (first, second) for first, second in contrasts(self.run.config)}
        chosen = next(iter(pairs), "") if name is None else name
        if chosen not in pairs:
            raise self._unknown("contrast", chosen, pairs)
        return pairs[chosen]


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
