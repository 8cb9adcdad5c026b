"""Interim analyses of a run that stops: after which prompts it is asked, and what each found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.methods.stopping.gaps import SequentialGap, gap_after
from analysis.methods.stopping.question import StopQuestion
from analysis.study import indicators
from analysis.tables.similarities.pictures import image_similarities
from analysis.tables.similarities.stored import StoredSimilarities
from analysis.tables.similarities.word_gap import words_of
from probes.config.schema import Config
from probes.errors import UserError
from probes.runs.parts import part_files
from probes.runs.record import KINDS
from probes.runs.run import Run
from probes.runs.schemas import kinds_of_capture


def prompts_at_looks(config: Config, question: StopQuestion) -> dict[int, int]:
    """Return after how many parts the run is asked, each with the whole prompts that these hold."""
    each, last, looks = len(config.seeds), 0, {}
    triplets = question.most * each
    for part, start in enumerate(range(0, triplets, config.generate.part_triplets), 1):
        prompts = min(start + config.generate.part_triplets, triplets) // each
        if prompts > last and (
            prompts >= max(question.fewest, last + question.every) or prompts == question.most
        ):
            looks[part] = last = prompts
    return looks


@dataclass
class Looks:
    """Interim analyses of a run."""

    run: Run
    config: Config  # as the run is generated
    question: StopQuestion
    _pictures: pd.DataFrame | None = None  # similarities of pictures of former looks

    def at(self, parts: int) -> SequentialGap | None:
        """Return what is found after so many parts; None where no prompt is whole."""
        prompts = prompts_at_looks(self.config, self.question)[parts]
        return self._gaps(parts)(prompts)

    def path(self) -> Iterator[SequentialGap]:
        """Yield what each look found, at the parts that are there from the first on."""
        kinds = kinds_of_capture(self.config.capture)
        existing = set.intersection(*({*part_files(self.run.path / kind)} for kind in kinds))
        last = next(part for part in count() if part not in existing)
        gap = self._gaps(last) if last else None
        for parts, prompts in prompts_at_looks(self.config, self.question).items():
            if gap and parts <= last and (look := gap(prompts)) is not None:
                yield look

    def require_captured(self) -> None:
        """Refuse, once a part is there, a run that does not capture what it is asked of."""
        metric = self.question.shown
        column = f"{metric.site}:{metric.metric}"
        if metric.needs == "captures" and column not in self._run(1).columns("captures"):
            raise UserError(
                f"stop: expected {column} among what the run captures, found none: add {metric.site} to capture.sites,"
                " or leave `stop` out"
            )

    def _run(self, parts: int) -> Run:
        """The run as if it had these parts and no others; it has read none yet."""
        kinds = dict.fromkeys(kinds_of_capture(self.config.capture), parts)
        return Run(self.run.path, {**self.run.meta, KINDS: kinds})

    def _gaps(self, parts: int) -> Callable[[int], SequentialGap | None]:
        """Read the first so many parts; return what gives the gap after so many of their prompts."""
        run, metric, members = self._run(parts), self.question.shown, indicators(self.config)
        names = [member.name for member in members]
        controls = {member.name: member.control for member in members if member.control}
        words = words_of(self.question.contrast, self.config.reference, controls)
        samples = run.samples(["sample_id", "triplet", "seed", "indicator", "fault"])
        pairs = StoredSimilarities(run, self._compared(run, samples, names), samples)
        family = pairs.family(*metric.place)
        assert family is not None

        def near(one: str, other: str) -> NDArray[np.float64]:
            return metric.sign * family.pair(one, other, names)[..., 0]

        options = {"level": self.question.level, "reach": self.question.reach}
        limit = metric.high - metric.low
        return lambda prompts: gap_after(prompts, near, words, family.prompts, limit=limit, **options)

    def _compared(self, run: Run, samples: pd.DataFrame, names: list[str]) -> pd.DataFrame:
        """Similarities of pictures, where the question is of these; those of a former look are kept."""
        metric, before = self.question.shown, self._pictures
        wanted = (metric.metric,) if metric.needs == "pictures" else ()
        new = samples if wanted else samples.iloc[:0]
        if before is not None:
            known = pd.MultiIndex.from_frame(before[["triplet", "seed"]])
            new = new[~pd.MultiIndex.from_frame(new[["triplet", "seed"]]).isin(known)]
        made = image_similarities(new, run.images, names, wanted, run.left_out() if wanted else {})
        self._pictures = made if before is None else pd.concat([before, made], ignore_index=True)
        return self._pictures
