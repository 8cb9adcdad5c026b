"""Four ways of deciding when enough images are there, and what becomes of the same audits under each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.methods.stopping.gaps import MEASURE, RUN, SequentialGap
from analysis.methods.stopping.question import (
    DIRECTION,
    EQUIVALENCE,
    FIRST,
    GAP,
    INTERVAL,
    OPEN,
    SECOND,
    StopQuestion,
)
from lab.validate.stopping.audits import OWN, Audits, PromptAudits, Stakes, Usual, log_capitals
from lab.validate.stopping.boundaries import nominal_levels

FEWEST, EVERY, MOST, LEVEL = 12, 8, 240, 0.95
FIXED = 24  # prompts of the default configuration
LOOKS = (*range(FEWEST, MOST, EVERY), MOST)
STOPS, STOPS_BOUNDED = "stops itself", "stops itself, whole range"
FIXED_FEW, FIXED_MOST = f"{FIXED} prompts", f"{MOST} prompts"
GROUPS, PEEKING = "O'Brien–Fleming", "naive peeking"
DESIGNS = (STOPS, STOPS_BOUNDED, FIXED_FEW, FIXED_MOST, GROUPS, PEEKING)
_TINY = 1e-12  # a look that may reject at no larger p-value is left out: its interval has no end
CHECKED = 20


def question(within: float, most: int = MOST, kind: str = GAP) -> StopQuestion:
    """Return the question of audits: by default to which side the gap leans, or whether it is smaller than `within`."""
    return StopQuestion(
        kind, "z0", "cosine", ("masculine", "feminine"), within, LEVEL, FEWEST, EVERY, most, RUN
    )


@dataclass(frozen=True)
class StoppedAudits:
    """Where audits stopped; arrays have shape (n_audits,).

    Attributes
    ----------
    prompts : ndarray of int
    answer : ndarray of str
        As of `StopQuestion.answer`.
    covered : ndarray of bool
        Whether the interval there holds the truth.
    """

    prompts: NDArray[np.int64]
    answer: NDArray[np.str_]
    covered: NDArray[np.bool_]

    def row(self, truth: float, delta: float) -> dict[str, int | float]:
        """Return counts: wrong answers, intervals that hold the truth, answers of each kind, and prompts taken."""
        leans = np.isin(self.answer, [FIRST, SECOND])
        small = self.answer == EQUIVALENCE
        wrong = leans if truth == 0 else self.answer == (SECOND if truth > 0 else FIRST)
        if abs(truth) >= delta:
            wrong = wrong | small
        return {
            "audits": len(self.prompts),
            "wrong": int(wrong.sum()),
            "covered": int(self.covered.sum()),
            "leans": int(leans.sum()),
            "small": int(small.sum()),
            **({"narrow": narrow} if (narrow := int((self.answer == INTERVAL).sum())) else {}),
            "mean": round(float(self.prompts.mean()), 1),
            "q80": int(np.quantile(self.prompts, 0.8, method="inverted_cdf")),
        }


def by_interval(
    audits: Audits, asked: StopQuestion, levels: Mapping[int, float], truth: float
) -> StoppedAudits:
    """Return where audits stop that look at the usual interval, at a level of its own after each number of prompts."""
    count = audits.values.shape[1]
    prompts, answer = np.full(count, max(levels)), np.full(count, OPEN, dtype="U16")
    covered, still = np.ones(count, bool), np.arange(count)
    for n, level in levels.items():
        mean, *ends, _ = audits.usual(n, level, still)
        low, high = (np.where(np.isnan(end), side * np.inf, end) for side, end in zip((-1, 1), ends))
        covered[still] = (low <= truth) & (truth <= high)
        answer[still] = [
            asked.answer(SequentialGap(n, *one, *one[1:], np.nan, np.nan)) for one in zip(mean, low, high)
        ]
        prompts[still] = n
        still = still[answer[still] == OPEN]
        if not len(still):
            break
    return StoppedAudits(prompts, answer, covered)


def by_itself(
    audits: Audits,
    asked: StopQuestion,
    reach: str,
    truth: float,
    seen: Mapping[int, Usual],
    stakes: Stakes | None = None,
) -> StoppedAudits:
    """Return where audits stop by themselves.

    An interval ends where the capital reaches its bound. Whether it leaves out a point is asked of the capital at that
    point, which is faster than to find the ends. Rarely a point farther off is inside again: differences of prompts are
    asked as a run is before they stop, and of words one audit in `CHECKED` where it stopped.

    Parameters
    ----------
    audits : PromptAudits or WordAudits
    asked : StopQuestion
    reach : {"run", "measure"}
    truth : float
    seen : mapping of int to Usual
        What `audits.usual` returns at each look, of which the means and the words' halves are read.
    stakes : Stakes
        Where given, nothing is asked as a run is.

    Raises
    ------
    ArithmeticError
        A run would have answered otherwise.
    """
    count, delta, looks, used = audits.values.shape[1], asked.within, tuple(seen), stakes or OWN
    prompts, answer = np.full(count, looks[-1]), np.full(count, OPEN, dtype="U16")
    points, bound, known = (
        np.array([0.0, -delta, delta, truth]),
        -np.log(1 - asked.level),
        audits.reach(reach),
    )
    out = log_capitals(audits.values, points, known, np.array(looks), used) >= bound

    def left_out(n: int, of: NDArray, means: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether the prompts' interval of some audits leaves out points of their own, shape (n_audits, k)."""
        bounds = None if known is None else np.broadcast_to(known, audits.values.shape)[:n, of]
        return log_capitals(audits.values[:n, of], means, bounds, np.array([n]), used)[0] >= bound

    covered, still = np.ones(count, bool), np.ones(count, bool)
    for place, n in enumerate(looks):
        mean, *_, half = seen[n]
        half = np.nan_to_num(half, nan=0.0)
        beyond = out[place].copy()  # what the prompts' interval leaves out; then what the joined one does
        if len(joined := np.flatnonzero(still & (half > 0) & beyond.any(axis=1))):
            off = points - mean[joined, None]
            left = off**2 - half[joined, None] ** 2
            inner = mean[joined, None] + np.sign(off) * np.sqrt(np.maximum(left, 0))
            beyond[joined] &= (left > 0) & left_out(n, joined, inner)
        leans, small, narrow = (np.zeros(count, bool) for _ in range(3))
        if asked.question in (GAP, DIRECTION):
            leans = still & beyond[:, 0]
        if asked.question in (GAP, EQUIVALENCE):
            small = still & ~leans & beyond[:, 1] & beyond[:, 2] & (np.abs(mean) < delta)
        if asked.question == INTERVAL and len(tried := np.flatnonzero(still & (half < delta))):
            room = np.sqrt(delta**2 - half[tried] ** 2)[:, None] * [-1, 1]
            narrow[tried] = left_out(n, tried, mean[tried, None] + room).all(axis=1)
        if stakes is None and isinstance(audits, PromptAudits):
            for audit in np.flatnonzero(leans | small | narrow):
                found = audits.after(audit, n, asked.level, reach)
                beyond[audit, 3] = not found.low <= truth <= found.high
                if asked.answer(found) == OPEN:
                    leans[audit] = small[audit] = narrow[audit] = False
        answer[leans] = np.where(mean[leans] > 0, FIRST, SECOND)
        answer[small], answer[narrow] = EQUIVALENCE, INTERVAL
        ended = leans | small | narrow | (still if n == looks[-1] else False)
        prompts[ended], covered[ended] = n, ~beyond[ended, 3]
        still &= ~ended
    for audit in range(0, count, CHECKED) if stakes is None else ():
        found = audits.after(audit, prompts[audit], asked.level, reach)
        told, holds = asked.answer(found), found.low <= truth <= found.high
        if (told, holds) != (answer[audit], covered[audit]):
            raise ArithmeticError(f"audit {audit}: expected {told!r} as a run answers, got {answer[audit]!r}")
    return StoppedAudits(prompts, answer, covered)


def decided(
    audits: Audits, delta: float, truth: float, *, bounded: bool = True, most: int = MOST, kind: str = GAP
) -> Iterator[tuple[str, StoppedAudits]]:
    """Yield where the same audits stop under each design.

    Parameters
    ----------
    audits : PromptAudits or WordAudits
    delta : float
        The smallest gap that matters.
    truth : float
    bounded : bool
        Whether values have a range that is known.
    most : int
        Prompts at the last look.
    kind : str
        Of the question.
    """
    asked, looks = question(delta, most, kind), looks_until(most)
    everyone = np.arange(audits.values.shape[1])
    seen = {n: audits.usual(n, LEVEL, everyone) for n in looks}
    for name, reach in ((STOPS, RUN), (STOPS_BOUNDED, MEASURE)):
        if reach == RUN or bounded:
            yield name, by_itself(audits, asked, reach, truth, seen)
    for name, levels in levels_of(looks).items():
        yield name, by_interval(audits, asked, levels, truth)


def looks_until(most: int) -> tuple[int, ...]:
    """Return after how many prompts audits look."""
    return (*(n for n in LOOKS if n < most), most)


def levels_of(looks: Sequence[int]) -> dict[str, dict[int, float]]:
    """Return the levels of the usual interval at each look, of each design that reads it."""
    spending = {n: 1 - level for n, level in zip(looks, nominal_levels(looks, 1 - LEVEL)) if level > _TINY}
    return {
        FIXED_FEW: {FIXED: LEVEL},
        FIXED_MOST: {looks[-1]: LEVEL},
        GROUPS: spending,
        PEEKING: dict.fromkeys(looks, LEVEL),
    }


def rows(parts: Iterable[Iterable[tuple[str, StoppedAudits]]], truth: float, delta: float) -> dict[str, Any]:
    """Return the row of each design over audits that were decided in several parts."""
    of: dict[str, list[StoppedAudits]] = {}
    for part in parts:
        for name, stopped in part:
            of.setdefault(name, []).append(stopped)
    return {
        name: StoppedAudits(
            *(np.concatenate([getattr(one, field) for one in some]) for field in _FIELDS)
        ).row(truth, delta)
        for name, some in of.items()
    }


_FIELDS = tuple(StoppedAudits.__dataclass_fields__)
