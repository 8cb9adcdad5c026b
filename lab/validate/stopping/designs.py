"""Four ways of deciding when enough images are there, and what becomes of the same audits under each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.methods.stopping.gaps import MEASURE, RUN, SequentialGap
from analysis.methods.stopping.question import EQUIVALENCE, FIRST, GAP, OPEN, SECOND, StopQuestion
from analysis.stats.confidence_sequences import log_capital
from lab.validate.stopping.audits import Audits, Usual, log_capitals
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


def question(within: float, most: int = MOST) -> StopQuestion:
    """Return the question of all audits: to which side does the gap lean, or is it smaller than `within`?"""
    return StopQuestion(
        GAP, "z0", "cosine", ("masculine", "feminine"), within, LEVEL, FEWEST, EVERY, most, RUN
    )


@dataclass(frozen=True)
class Stopped:
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
            "mean": round(float(self.prompts.mean()), 1),
            "q80": int(np.quantile(self.prompts, 0.8, method="inverted_cdf")),
        }


def by_interval(audits: Audits, asked: StopQuestion, levels: Mapping[int, float], truth: float) -> Stopped:
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
    return Stopped(prompts, answer, covered)


def by_itself(
    audits: Audits, asked: StopQuestion, reach: str, truth: float, seen: Mapping[int, Usual]
) -> Stopped:
    """Return where audits stop by themselves.

    An interval ends where the capital reaches its bound. Whether it leaves out a point is asked of the capital at that
    point, which is faster than to find the ends. One audit in `CHECKED` is asked as a run is, where it stopped.

    Parameters
    ----------
    audits : PromptAudits or WordAudits
    asked : StopQuestion
    reach : {"run", "measure"}
    truth : float
    seen : mapping of int to Usual
        What `audits.usual` returns at each look, of which the means and the words' halves are read.

    Raises
    ------
    ArithmeticError
        A run would have answered otherwise.
    """
    count, delta, looks = audits.values.shape[1], asked.within, tuple(seen)
    prompts, answer = np.full(count, looks[-1]), np.full(count, OPEN, dtype="U16")
    points = np.array([0.0, -delta, delta, truth])
    out = log_capitals(audits.values, points, audits.reach(reach), np.array(looks)) >= -np.log(
        1 - asked.level
    )
    covered, still = np.ones(count, bool), np.ones(count, bool)
    for place, n in enumerate(looks):
        mean, *_, half = seen[n]
        half = np.nan_to_num(half, nan=0.0)
        beyond = out[place].copy()  # what the prompts' interval leaves out; then what the joined one does
        last = n == looks[-1]
        for audit in np.flatnonzero(still & (half > 0) & (beyond.any(axis=1))):
            values, known = audits.values[:n, audit], audits.reach(reach)[:n, audit]
            left = (points - mean[audit]) ** 2 - half[audit] ** 2
            inner = mean[audit] + np.sign(points - mean[audit]) * np.sqrt(np.maximum(left, 0))
            beyond[audit] &= left > 0
            if beyond[audit].any():
                beyond[audit] &= log_capital(values, inner, reach=known) >= -np.log(1 - asked.level)
        leans = still & beyond[:, 0]
        small = still & ~leans & beyond[:, 1] & beyond[:, 2] & (np.abs(mean) < delta)
        answer[leans] = np.where(mean[leans] > 0, FIRST, SECOND)
        answer[small] = EQUIVALENCE
        ended = leans | small | (still if last else False)
        prompts[ended], covered[ended] = n, ~beyond[ended, 3]
        still &= ~ended
    for audit in range(0, count, CHECKED):
        found = audits.after(audit, prompts[audit], asked.level, reach)
        told, holds = asked.answer(found), found.low <= truth <= found.high
        if (told, holds) != (answer[audit], covered[audit]):
            raise ArithmeticError(f"audit {audit}: expected {told!r} as a run answers, got {answer[audit]!r}")
    return Stopped(prompts, answer, covered)


def decided(
    audits: Audits, delta: float, truth: float, *, bounded: bool = True, most: int = MOST
) -> Iterator[tuple[str, Stopped]]:
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
    """
    asked, looks = question(delta, most), (*(n for n in LOOKS if n < most), most)
    everyone = np.arange(audits.values.shape[1])
    seen = {n: audits.usual(n, LEVEL, everyone) for n in looks}
    for name, reach in ((STOPS, RUN), (STOPS_BOUNDED, MEASURE)):
        if reach == RUN or bounded:
            yield name, by_itself(audits, asked, reach, truth, seen)
    spending = {n: 1 - level for n, level in zip(looks, nominal_levels(looks, 1 - LEVEL)) if level > _TINY}
    for name, levels in (
        (FIXED_FEW, {FIXED: LEVEL}),
        (FIXED_MOST, {most: LEVEL}),
        (GROUPS, spending),
        (PEEKING, dict.fromkeys(looks, LEVEL)),
    ):
        yield name, by_interval(audits, asked, levels, truth)


def rows(parts: Iterable[Iterable[tuple[str, Stopped]]], truth: float, delta: float) -> dict[str, Any]:
    """Return the row of each design over audits that were decided in several parts."""
    of: dict[str, list[Stopped]] = {}
    for part in parts:
        for name, stopped in part:
            of.setdefault(name, []).append(stopped)
    return {
        name: Stopped(*(np.concatenate([getattr(one, field) for one in some]) for field in _FIELDS)).row(
            truth, delta
        )
        for name, some in of.items()
    }


_FIELDS = tuple(Stopped.__dataclass_fields__)
