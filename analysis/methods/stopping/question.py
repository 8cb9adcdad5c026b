"""What a run that stops is asked, and whether that is answered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import Any

from analysis.methods.stopping.gaps import MEASURE, SequentialGap
from analysis.methods.stopping.seen import KINDS, ImageQuestion, seen_of
from analysis.metrics.registry import Metric, definition, headline_metrics, require_primary
from analysis.study import contrasts
from analysis.tables.similarities.families import PROMPT_SPACE
from probes.config.schema import Config
from probes.config.stop_options import WITHIN_SHARES
from probes.errors import UserError

DIRECTION, EQUIVALENCE, INTERVAL, GAP = "direction", "equivalence", "interval", "gap"
RACE = "race"  # of several runs: none of them answers it alone
OPEN = ""
FIRST, SECOND = "first", "second"


@dataclass(frozen=True)
class StopQuestion:
    """A question as it is registered before the first image.

    Attributes
    ----------
    question : {"gap", "direction", "equivalence", "interval", "race"}
    measure : str
        As in ``measure.primary``, with ``metric``, its name in tables; or ``object``, ``attribute`` or ``question``,
        with the name of one.
    contrast : tuple of (str, str)
    within : float
        The gap that would matter, or half the width that is wanted.
    level : float
    fewest, every, most : int
        Prompts, or seeds, before the first look, from look to look at least, and in all.
    reach : {"run", "measure"}
    observer : str
        Who has to look at the images before it can be asked; empty where nobody has to.
    given : int
        Prompts whose seeds are drawn one after another: the answer is about these prompts alone. 0: prompts are drawn
        one after another.
    reading : str
        Of a question to images the answer that is counted.
    """

    question: str
    measure: str
    metric: str
    contrast: tuple[str, str]
    within: float
    level: float
    fewest: int
    every: int
    most: int
    reach: str
    observer: str = ""
    given: int = 0
    reading: str = ""

    @classmethod
    def of(cls, config: Config) -> StopQuestion:
        """Return what a configuration asks.

        Raises
        ------
        UserError
            Its primary measure is none of a run, or no seed alters it, what it asks of images is not known of all, or
            it is observed on a cluster.
        """
        stop, prompts = config.stop, len(config.prompts[: config.limit])
        assert stop is not None
        given = prompts if config.stops_over == "seeds" else 0
        most = len(config.seeds) if given else prompts
        if stop.of is None:
            (measure, metric, within, observer), reading = _measure(config), ""
        else:
            (measure, metric, observer, reading), within = seen_of(config, stop.of), WITHIN_SHARES
        if given and stop.of is None and definition(metric).space == PROMPT_SPACE:
            raise UserError(
                f"stop: expected a measure that seeds alter, got measure.primary `{measure}`, of the prompt alone: take"
                " another, or draw prompts (`over: prompts`)"
            )
        if observer and config.clustered:
            raise UserError(
                f"stop: expected a question that needs no observer on a cluster, got one about `{metric}`: leave out"
                " one of the two"
            )
        return cls(
            stop.question,
            measure,
            metric,
            contrasts(config)[0],
            within if stop.within is None else stop.within,
            config.measure.level,
            min(stop.fewest, most),
            stop.every or 1,
            most,
            MEASURE if stop.of else stop.reach,
            observer,
            given,
            reading,
        )

    @classmethod
    def stored(cls, registered: Mapping[str, Any]) -> StopQuestion:
        """Return the question that a run's record holds."""
        values = {name: registered[name] for name in cls.__dataclass_fields__ if name in registered}
        return cls(**{**values, "contrast": tuple(values["contrast"])})

    @property
    def unit(self) -> str:
        """What is drawn one after another, and counted: ``prompt`` or ``seed``."""
        return "seed" if self.given else "prompt"

    @property
    def seen(self) -> ImageQuestion | None:
        """What of single images it is about; None where it is about how near two are."""
        kind = KINDS.get(self.measure)
        return kind(self.metric, self.observer, self.reading) if kind else None

    @property
    def shown(self) -> Metric:
        """How its gap is written."""
        if self.seen:
            return replace(definition("cooccurrence"), metric=self.metric, symbol=self.seen.wording.symbol)
        return definition(self.metric)

    @property
    def observed(self) -> tuple[str, ...]:
        """The kinds of parts that the observer stores."""
        if self.seen:
            return self.seen.stored
        return (f"features/{self.observer}",) if self.observer else ()

    def record(self) -> dict[str, Any]:
        """Return what ``run.json`` keeps: the question, and the hash by which it is known."""
        fields = {**asdict(self), "contrast": list(self.contrast)}
        return {**fields, "sha256": sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()}

    def answer(self, found: SequentialGap) -> str:
        """Return what a look answers: the side that the gap leans to, that it is small, or known; empty for nothing.

        Returns
        -------
        {"first", "second", "equivalence", "interval", ""}
        """
        if found.n_prompts < self.fewest:
            return OPEN
        if self.question == INTERVAL:
            wide = max(found.high - found.gap, found.gap - found.low)
            return INTERVAL if wide <= self.within else OPEN
        if self.question in (GAP, DIRECTION) and (found.low > 0 or found.high < 0):
            return FIRST if found.low > 0 else SECOND
        small = -self.within < found.low and found.high < self.within
        return EQUIVALENCE if self.question in (GAP, EQUIVALENCE) and small else OPEN


def _measure(config: Config) -> tuple[str, str, float, str]:
    """The primary measure: its key, its name, the gap of it that would matter, and who observes it."""
    require_primary(config.measure.primary, "measure.primary")
    rows = {row.key: row for row in headline_metrics(config.measure.text_readout)}
    metric = rows[config.measure.primary]
    within = config.measure.equivalence.get(metric.metric, metric.least_delta)
    return metric.key, metric.metric, within, metric.metric if metric.needs == "features" else ""
