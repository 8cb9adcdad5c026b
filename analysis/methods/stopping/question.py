"""The question of a run that stops, and whether it is answered."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from analysis.methods.stopping.gaps import SequentialGap
from analysis.metrics.registry import Metric, definition, headline_metrics, require_primary
from analysis.report.format import amount
from analysis.study import contrasts
from probes.config.schema import Config
from probes.errors import UserError

DIRECTION, EQUIVALENCE, INTERVAL, GAP = "direction", "equivalence", "interval", "gap"
OPEN = ""
FIRST, SECOND = "first", "second"


@dataclass(frozen=True)
class StopQuestion:
    """A question as it is registered before the first image."""

    question: str
    measure: str  # as in `measure.primary`; `metric` is its name in tables
    metric: str
    contrast: Sequence[str]
    within: float  # the gap that would matter, or half the width that is wanted
    level: float
    fewest: int  # prompts before the first look
    every: int  # prompts from look to look at least
    most: int  # prompts in all
    reach: str

    @classmethod
    def of(cls, config: Config) -> StopQuestion:
        """Return what a configuration asks."""
        stop, most = config.stop, len(config.prompts[: config.limit])
        assert stop is not None
        primary = config.measure.primary
        require_primary(primary, "measure.primary")
        metric = next(row for row in headline_metrics(config.measure.text_readout) if row.key == primary)
        if metric.needs == "features":
            raise UserError(
                f"stop: expected a measure that is known once an image is generated, got measure.primary `{primary}`,"
                " which an observer gives: take z0, t, ssim or diff_pix, or leave `stop` out"
            )
        within = config.measure.equivalence.get(metric.metric, metric.least_delta)
        return cls(
            stop.question,
            metric.key,
            metric.metric,
            [*contrasts(config)[0]],
            within if stop.within is None else stop.within,
            config.measure.level,
            min(stop.fewest, most),
            stop.every,
            most,
            stop.reach,
        )

    @classmethod
    def stored(cls, registered: Mapping[str, Any]) -> StopQuestion:
        """Return the question that a run's record holds."""
        return cls(**{name: value for name, value in registered.items() if name != "sha256"})

    @property
    def shown(self) -> Metric:
        """How its gap is written."""
        return definition(self.metric)

    def text(self, reference: str) -> str:
        """Return the question in words."""
        (first, second), metric = self.contrast, self.shown
        within, seen = (
            amount(self.within, metric),
            f"{first} and {second} prompts, as seen from {reference} prompts",
        )
        nearer = f"Are {metric.noun} {reference} prompts nearer to those of {first} or of {second} prompts"
        return {
            DIRECTION: f"{nearer}?",
            GAP: f"{nearer}, or is the gap between both smaller than {within}?",
            EQUIVALENCE: f"Is the gap between {seen}, smaller than {within}?",
            INTERVAL: f"How large is the gap between {seen}, to within ±{within}?",
        }[self.question]

    def record(self) -> dict[str, Any]:
        """Return what ``run.json`` keeps: the question, and the hash by which it is known."""
        fields = asdict(self)
        return {**fields, "sha256": sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()}

    def answer(self, found: SequentialGap | None) -> str:
        """Return what a look answers: the side that the gap leans to, that it is small, or known; empty for nothing."""
        if found is None or found.n_prompts < self.fewest:
            return OPEN
        if self.question == INTERVAL:
            wide = max(found.high - found.gap, found.gap - found.low)
            return INTERVAL if wide <= self.within else OPEN
        if self.question in (GAP, DIRECTION) and (found.low > 0 or found.high < 0):
            return FIRST if found.low > 0 else SECOND
        small = -self.within < found.low and found.high < self.within
        return EQUIVALENCE if self.question in (GAP, EQUIVALENCE) and small else OPEN
