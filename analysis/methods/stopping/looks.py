"""The looks of a run that stops: at which prompts it is asked, what each found, and which of them ended it.

A run that stops over seeds is asked in the same way, with a seed in the place of a prompt, and the prompts in the place
of its seeds: the value of a seed is the mean over all prompts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.stopping.gaps import GapOfPrompts, SequentialGap
from analysis.methods.stopping.question import OPEN, RACE, StopQuestion
from analysis.methods.stopping.shares import SharesOfPrompts
from analysis.metrics.registry import Metric, definition
from analysis.study import indicators
from analysis.tables.similarities.control_columns import words_of
from analysis.tables.similarities.pictures import feature_similarities, image_similarities, part_names
from analysis.tables.similarities.stored import StoredSimilarities
from probes.config.schema import Config
from probes.errors import UserError
from probes.runs.directory import another_run
from probes.runs.kinds import kinds_of_capture
from probes.runs.parts import part_files
from probes.runs.selection import KINDS, REGISTERED, number
from probes.runs.store import Run

if TYPE_CHECKING:
    from analysis.observe.early import EarlyObserver


def prompts_at_looks(config: Config, question: StopQuestion) -> list[int]:
    """Return after how many whole prompts, or seeds, the run is asked, by its parts: 0 where none is looked at.

    A prompt is whole with all its seeds, a seed with all its prompts.
    """
    each, last, found = question.given or len(config.seeds), 0, []
    draws = question.most * each
    for start in range(0, draws, config.generate.part_triplets):
        whole = min(start + config.generate.part_triplets, draws) // each
        look = whole >= question.fewest and (whole >= last + question.every or whole == question.most)
        last = whole if look and whole > last else last
        found.append(whole if last == whole and look else 0)
    return found


def registered(run: Run, config: Config, *, racing: bool = False) -> StopQuestion:
    """Return the question of a run that is to be drawn, once it is found to be the one that was registered.

    Raises
    ------
    UserError
        Images were drawn for another question, or for a race that has to go on with it.
    """
    question, before = StopQuestion.of(config), run.meta.get(REGISTERED)
    if racing:
        question = replace(question, question=RACE)
    elif before and before.get("question") == RACE:
        raise UserError(
            f"{run.path}: expected a run of its own, got one of a race, which says how far it is drawn: start the race"
            " again, or go through --stage observe, measure or report alone"
        )
    if before:
        there, now = StopQuestion.stored(before).record(), question.record()
        if name := next((name for name in now if now[name] != there[name]), None):
            raise another_run(run, f"the registered question's {name}", there[name], now[name])
    return question


def of_seeds(values: NDArray[np.float64], places: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return values with seeds in the place of prompts; a seed that lacks a prompt has none.

    Parameters
    ----------
    values : ndarray, shape (n_prompts, n_seeds)
        NaN where there is none.
    places : ndarray of int, shape (n_seeds,)
        By which the seeds are put in order.

    Returns
    -------
    ndarray, shape (n_seeds, n_prompts)

    Examples
    --------
    >>> of_seeds(np.array([[1.0, 2.0], [3.0, np.nan]]), np.array([1, 0])).tolist()
    [[nan, nan], [1.0, 3.0]]
    """
    turned = values.T[np.argsort(places)]
    return np.where(np.isnan(turned).any(axis=1, keepdims=True), np.nan, turned)


@dataclass
class Looks:
    """Asks a run after each of its parts.

    Attributes
    ----------
    run : Run
    config : Config
        As the run draws it.
    question : StopQuestion
    early : EarlyObserver or None
        Who looks at the images before they are asked about, while they are drawn.
    """

    run: Run
    config: Config
    question: StopQuestion
    early: EarlyObserver | None = None
    _gap: GapOfPrompts | SharesOfPrompts | None = None
    _read: int = 0  # parts that `_gap` was made of
    _pictures: pd.DataFrame | None = None
    _features: list[pd.DataFrame] = field(default_factory=list)  # part by part
    _looked: int = 0  # parts that `parts_needed` has looked at
    _needed: int | None = None

    def record(self) -> dict[str, Any]:
        """Return what ``run.json`` keeps of the question."""
        return self.question.record()

    def parts_needed(self) -> int | None:
        """Return how many parts, whoever made them and as far as none is missing, answer it; None while none do."""
        if self.early:
            self.early.look()
        there = self._there()
        while self._looked < there and self._needed is None:
            self._looked += 1
            if self._answered(self._looked):
                self._needed = self._looked
        return self._needed

    def is_answered(self, parts: int) -> bool:
        """Return whether the first so many parts answer the question."""
        if self.early:
            self.early.look(parts)
        return self._answered(parts)

    def end(self) -> None:
        """Record, when no more is drawn, who has looked."""
        if self.early:
            self.early.end()

    def _answered(self, parts: int) -> bool:
        if parts == 1:
            self._require()
        look = self.at(parts)
        return look is not None and self.question.answer(look) != OPEN

    def at(self, parts: int) -> SequentialGap | None:
        """Return what is found after so many parts; None where nobody looks there, or no prompt is whole."""
        prompts = prompts_at_looks(self.config, self.question)[parts - 1]
        if not prompts:
            return None
        found = self.gathered(parts)
        if isinstance(found, SharesOfPrompts):
            return found.after(prompts, level=self.question.level)
        return found.after(prompts, level=self.question.level, reach=self.question.reach)

    def gathered(self, parts: int) -> GapOfPrompts | SharesOfPrompts:
        """Return what the first so many parts hold, or more of them; they are read once."""
        if self._gap is None or self._read < parts:
            self._gap, self._read = self._gathered(parts), parts
        return self._gap

    def path(self) -> Iterator[SequentialGap]:
        """Yield what each look found, at the parts that are there from the first on."""
        parts = self._there()
        if parts:
            self.gathered(parts)
        for part in range(1, parts + 1):
            if (look := self.at(part)) is not None:
                yield look

    def _there(self) -> int:
        """How many parts there are, from the first to the first that is missing."""
        kinds = [part_files(self.run.path / kind) for kind in self._kinds]
        there = set.intersection(*({number(file) for file in files} for files in kinds))
        return next(part for part in count() if part not in there)

    @property
    def _kinds(self) -> tuple[str, ...]:
        return *kinds_of_capture(self.config.capture), *self.question.observed

    @property
    def _captured(self) -> bool:
        return self.question.shown.needs == "captures"

    def _of_parts(self, parts: int) -> Run:
        """The run as if it had these parts and no others; it has read none yet."""
        return Run(self.run.path, {**self.run.meta, KINDS: dict.fromkeys(self._kinds, parts)})

    def _require(self) -> None:
        """Refuse, once a part is there, a run that does not capture or observe what it is asked of."""
        if self.question.seen:
            self.question.seen.require(self._of_parts(1))
        metric = self.question.shown
        column = f"{metric.site}:{metric.metric}"
        if self._captured and column not in self._of_parts(1).columns("captures"):
            raise UserError(
                f"stop: expected {column} among what the run captures, found none: add {metric.site} to capture.sites,"
                " or leave `stop` out"
            )

    def _gathered(self, parts: int) -> GapOfPrompts | SharesOfPrompts:
        """Read the first so many parts."""
        run = self._of_parts(parts)
        members = indicators(self.config)
        names = [member.name for member in members]
        controls = {member.name: member.control for member in members if member.control}
        words = words_of(self.question.contrast, self.config.reference, controls)
        given = self.question.given
        if self.question.seen:
            values = self.question.seen.values(run)
            if given:
                values = values.assign(triplet=values["seed"].map(self._seeds), seed=values["triplet"])
            return SharesOfPrompts.of(values, words, names, given or 1)
        metric = definition(self.question.metric)
        samples = run.samples(["sample_id", "triplet", "seed", "indicator", "fault"])
        pairs = StoredSimilarities(run, self._compared(run, samples, names, metric), samples)
        family = pairs.family(*metric.place)
        assert family is not None

        seeds = np.array([self._seeds[seed] for seed in pairs.only({metric.place}).seeds])

        def near(one: str, other: str) -> NDArray[np.float64]:
            values = metric.sign * family.pair(one, other, names)[..., 0]
            return of_seeds(values, seeds) if given else values

        units = np.sort(seeds) if given else family.prompts
        return GapOfPrompts.of(near, words, units, metric.high - metric.low)

    @property
    def _seeds(self) -> dict[int, int]:
        """The place of each seed in the order in which they are drawn."""
        return {seed: place for place, seed in enumerate(self.config.seeds)}

    def _compared(self, run: Run, samples: pd.DataFrame, names: list[str], metric: Metric) -> pd.DataFrame:
        """Similarities of pictures or features, where the question is of these; those of a former look are kept."""
        if metric.needs == "features":
            files = part_names(run, metric.metric)
            for file in files[len(self._features) :]:
                self._features.append(feature_similarities(run, metric.metric, file, names))
            return pd.concat(self._features, ignore_index=True).assign(reason="")
        before = self._pictures
        wanted = (metric.metric,) if metric.needs == "pictures" else ()
        new = samples if wanted else samples.iloc[:0]
        if before is not None:
            known = pd.MultiIndex.from_frame(before[["triplet", "seed"]])
            new = new[~pd.MultiIndex.from_frame(new[["triplet", "seed"]]).isin(known)]
        made = image_similarities(new, run.images, names, wanted, run.left_out() if wanted else {})
        self._pictures = made if before is None else pd.concat([before, made], ignore_index=True)
        return self._pictures
