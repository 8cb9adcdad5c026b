"""The looks of a run that stops: after which prompts it is asked, what each found, and which of them ended it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.stopping.gaps import GapOfPrompts, SequentialGap
from analysis.methods.stopping.question import OPEN, StopQuestion
from analysis.metrics.registry import Metric, definition
from analysis.study import indicators
from analysis.tables.similarities.control_columns import words_of
from analysis.tables.similarities.pictures import image_similarities
from analysis.tables.similarities.stored import StoredSimilarities
from probes.config.schema import Config
from probes.errors import UserError
from probes.runs.directory import another_run
from probes.runs.kinds import kinds_of_capture
from probes.runs.parts import part_files
from probes.runs.selection import KINDS, REGISTERED, number
from probes.runs.store import Run


def prompts_at_looks(config: Config, question: StopQuestion) -> list[int]:
    """Return after how many whole prompts the run is asked, by its parts: 0 where none is looked at."""
    each, last, found = len(config.seeds), 0, []
    draws = question.most * each
    for start in range(0, draws, config.generate.part_triplets):
        whole = min(start + config.generate.part_triplets, draws) // each
        look = whole >= question.fewest and (whole >= last + question.every or whole == question.most)
        last = whole if look and whole > last else last
        found.append(whole if last == whole and look else 0)
    return found


def registered(run: Run, config: Config) -> StopQuestion:
    """Return the question of a run that is to be drawn, once it is found to be the one that was registered.

    Raises
    ------
    UserError
        Images were drawn for another question.
    """
    question, before = StopQuestion.of(config), run.meta.get(REGISTERED)
    if before:
        there, now = StopQuestion.stored(before).record(), question.record()
        if name := next((name for name in now if now[name] != there[name]), None):
            raise another_run(run, f"the registered question's {name}", there[name], now[name])
    return question


@dataclass
class Looks:
    """Asks a run after each of its parts.

    Attributes
    ----------
    run : Run
    config : Config
        As the run draws it.
    question : StopQuestion
    """

    run: Run
    config: Config
    question: StopQuestion
    _gap: GapOfPrompts | None = None
    _read: int = 0  # parts that `_gap` was made of
    _pictures: pd.DataFrame | None = None
    _looked: int = 0  # parts that `parts_needed` has looked at
    _needed: int | None = None

    def record(self) -> dict[str, Any]:
        """Return what ``run.json`` keeps of the question."""
        return self.question.record()

    def parts_needed(self) -> int | None:
        """Return how many parts, whoever made them and as far as none is missing, answer it; None while none do."""
        there = self._there()
        while self._looked < there and self._needed is None:
            self._looked += 1
            if self.is_answered(self._looked):
                self._needed = self._looked
        return self._needed

    def is_answered(self, parts: int) -> bool:
        """Return whether the first so many parts answer the question."""
        if parts == 1:
            self._require()
        look = self.at(parts)
        return look is not None and self.question.answer(look) != OPEN

    def at(self, parts: int) -> SequentialGap | None:
        """Return what is found after so many parts; None where nobody looks there, or no prompt is whole."""
        prompts = prompts_at_looks(self.config, self.question)[parts - 1]
        if not prompts:
            return None
        return self.gathered(parts).after(prompts, level=self.question.level, reach=self.question.reach)

    def gathered(self, parts: int) -> GapOfPrompts:
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
        return tuple(kinds_of_capture(self.config.capture))

    @property
    def _captured(self) -> bool:
        return self.question.shown.needs == "captures"

    def _of_parts(self, parts: int) -> Run:
        """The run as if it had these parts and no others; it has read none yet."""
        return Run(self.run.path, {**self.run.meta, KINDS: dict.fromkeys(self._kinds, parts)})

    def _require(self) -> None:
        """Refuse, once a part is there, a run that does not capture what it is asked of."""
        metric = self.question.shown
        column = f"{metric.site}:{metric.metric}"
        if self._captured and column not in self._of_parts(1).columns("captures"):
            raise UserError(
                f"stop: expected {column} among what the run captures, found none: add {metric.site} to capture.sites,"
                " or leave `stop` out"
            )

    def _gathered(self, parts: int) -> GapOfPrompts:
        """Read the first so many parts."""
        run = self._of_parts(parts)
        members = indicators(self.config)
        names = [member.name for member in members]
        controls = {member.name: member.control for member in members if member.control}
        words = words_of(self.question.contrast, self.config.reference, controls)
        metric = definition(self.question.metric)
        samples = run.samples(["sample_id", "triplet", "seed", "indicator", "fault"])
        pairs = StoredSimilarities(run, self._compared(run, samples, names, metric), samples)
        family = pairs.family(*metric.place)
        assert family is not None

        def near(one: str, other: str) -> NDArray[np.float64]:
            return metric.sign * family.pair(one, other, names)[..., 0]

        return GapOfPrompts.of(near, words, family.prompts, metric.high - metric.low)

    def _compared(self, run: Run, samples: pd.DataFrame, names: list[str], metric: Metric) -> pd.DataFrame:
        """Similarities of pictures, where the question is of these; those of a former look are kept."""
        before = self._pictures
        wanted = (metric.metric,) if metric.needs == "pictures" else ()
        new = samples if wanted else samples.iloc[:0]
        if before is not None:
            known = pd.MultiIndex.from_frame(before[["triplet", "seed"]])
            new = new[~pd.MultiIndex.from_frame(new[["triplet", "seed"]]).isin(known)]
        made = image_similarities(new, run.images, names, wanted, run.left_out() if wanted else {})
        self._pictures = made if before is None else pd.concat([before, made], ignore_index=True)
        return self._pictures
