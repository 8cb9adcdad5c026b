"""Worlds of paired presence: an object in the images of both sides of a prompt, and tests that are made for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from analysis.methods.stopping.gaps import MEASURE
from analysis.methods.stopping.question import EQUIVALENCE, FIRST, OPEN, SECOND
from lab.papers.tables import read_table
from lab.validate.stopping.audits import PromptAudits
from lab.validate.stopping.designs import (
    LEVEL,
    MOST,
    STOPS,
    StoppedAudits,
    by_itself,
    levels_of,
    looks_until,
    question,
)

DELTA = 0.05  # the smallest difference of frequencies that matters
RARE = (0.005, 0.01, 0.02, 0.05)
SAME = 0.9  # of two images from one noise, the share in which both have an object that the rarer side has
UNSEEN = 0.1  # further share of images with the object that nothing is known of
CONCENTRATION = 2.0  # of the beta distribution of frequencies over prompts
NULL_QUANTILES, LEANING_QUANTILES = (0.25, 0.5, 0.75), (0.5, 0.75, 1.0)


@dataclass(frozen=True)
class PairWorld:
    """An object's presence on both sides of a prompt.

    Attributes
    ----------
    name : str
    first, second : float
        Frequencies.
    same : float, optional
        Share of the rarer side's images with the object in which the other side has it too; None: independent.
    words, seeds : int
        Pairs of images of a prompt, over which its difference is the mean.
    varies : bool
        Prompts have frequencies of their own, from a beta distribution.
    unseen : float
        Further share of images with the object that are not observed. A pair of which one is not is left out.
    """

    name: str
    first: float
    second: float
    same: float | None = None
    words: int = 1
    seeds: int = 1
    varies: bool = False
    unseen: float = 0.0

    @property
    def mean(self) -> float:
        """The difference of all images."""
        return self.first - self.second

    @property
    def observed(self) -> float:
        """The mean difference of the pairs that are observed."""
        only_first, only_second, _ = self._cells(np.array(self.first))
        return float(only_first - only_second)

    def drawn(self, n_prompts: int, audits: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return the differences of prompts that are observed, shape (n_prompts, n_audits)."""
        first = np.full((n_prompts, audits), self.first)
        if self.varies:
            larger = max(self.first, self.second)
            first = rng.beta(CONCENTRATION * larger, CONCENTRATION * (1 - larger), first.shape)
            first *= self.first / larger
        only_first, only_second, _ = self._cells(first)
        total, pairs = np.zeros(first.shape), self.words * self.seeds
        for _ in range(pairs):
            chance = rng.random(first.shape)
            total += 1.0 * (chance < only_first) - (chance > 1 - only_second)
        return total / pairs

    def _cells(self, first: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """Shares of observed pairs: the object on the first side only, on the second only, on both."""
        second = first * (self.second / self.first)
        both = first * second if self.same is None else self.same * np.minimum(first, second)
        seen = 1 - self.unseen
        cells = ((first - both) * seen, (second - both) * seen, both * seen**2)
        left = sum(cells) + 1 - (first + second - both)
        return tuple(cell / left for cell in cells)


def printed_pairs() -> dict[str, list[tuple[str, float, float]]]:
    """Return the frequencies of attributes of women and men as two papers print them, by paper, with their names."""
    gep = read_table(
        "gep2023_table11_12_frequencies",
        ("setting", "model", "gender", "attribute", "frequency"),
        numeric=("frequency",),
    )
    dalleval = read_table(
        "dalleval2023_table22_attributes", ("model", "gender", "attribute", "value"), numeric=("value",)
    )
    found = {}
    for paper, table, value, by in (
        ("GEP", gep, "frequency", ["model", "setting", "attribute"]),
        ("DALL-Eval", dalleval, "value", ["model", "attribute"]),
    ):
        of = table.pivot(index=by, columns="gender", values=value)
        found[paper] = [(", ".join(name), row["woman"], row["man"]) for name, row in of.iterrows()]
    return found


def _at(values: list, share: float):
    return values[int(share * (len(values) - 1))]


def _printed_worlds() -> Iterator[PairWorld]:
    """Frequencies of both sides alike, at quantiles of all attributes; then attributes at quantiles of differences."""
    for paper, pairs in printed_pairs().items():
        for share in NULL_QUANTILES:
            frequency = round(_at(sorted((a + b) / 2 for _, a, b in pairs), share), 4)
            for same, how in ((None, "independent"), (SAME, "one noise")):
                name = f"{paper}, {100 * frequency:g} %, {how}"
                yield PairWorld(name, frequency, frequency, same)
        for share in LEANING_QUANTILES:
            name, first, second = _at(sorted(pairs, key=lambda one: abs(one[1] - one[2])), share)
            yield PairWorld(f"{paper}: {name}, {100 * first:g} % and {100 * second:g} %", first, second)


PAIR_WORLDS = {
    world.name: world
    for world in (
        *(
            PairWorld(f"{100 * q:g} %, {how}", q, q, same)
            for q in RARE
            for same, how in ((None, "independent"), (SAME, "one noise"))
        ),
        *(PairWorld(f"{100 * q:g} % and never", q, 0.0) for q in RARE),
        PairWorld("5 % and 1 %", 0.05, 0.01),
        PairWorld("10 % and 5 %", 0.1, 0.05),
        PairWorld("10 % and 5 %, one noise", 0.1, 0.05, SAME),
        PairWorld("prompts vary, 20 %", 0.2, 0.2, varies=True),
        PairWorld("prompts vary, 20 %, 3 words", 0.2, 0.2, words=3, varies=True),
        PairWorld("prompts vary, 20 %, 3 words, 4 seeds", 0.2, 0.2, words=3, seeds=4, varies=True),
        PairWorld("prompts vary, 20 % and 10 %, 3 words", 0.2, 0.1, words=3, varies=True),
        PairWorld("prompts vary, 20 % and 10 %, 3 words, 4 seeds", 0.2, 0.1, words=3, seeds=4, varies=True),
        *_printed_worlds(),
        PairWorld("unseen more often, 20 %", 0.2, 0.2, unseen=UNSEEN),
        PairWorld("unseen more often, 20 % and 10 %", 0.2, 0.1, unseen=UNSEEN),
        PairWorld("unseen more often, 50 % and 20 %", 0.5, 0.2, unseen=UNSEEN),
        PairWorld("unseen more often, 90 % and 40 %", 0.9, 0.4, unseen=UNSEEN),
    )
}


def sign_p_values(positive: NDArray[np.int64], negative: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the two-sided p-values of the exact sign test, which is McNemar's where values are -1, 0 and 1."""
    fewer = np.minimum(positive, negative)
    return np.minimum(1.0, 2 * stats.binom.cdf(fewer, positive + negative, 0.5))


def adjusted_interval(values: NDArray[np.float64], level: float) -> tuple[NDArray[np.float64], ...]:
    """Return both ends of the adjusted Wald interval of mean differences (Agresti and Min 2005), shape (n_audits,).

    Half a pair is added to each of the four cells: present on neither side, on either, and on both.
    """
    n = len(values) + 2
    mean = values.sum(axis=0) / n
    half = special.ndtri((1 + level) / 2) * np.sqrt((((values**2).sum(axis=0) + 1) / n - mean**2) / n)
    return mean - half, mean + half


def by_sign_test(
    values: NDArray[np.float64], delta: float, levels: Mapping[int, float], truth: float
) -> StoppedAudits:
    """Return where audits stop that test signs, at a level of its own after each number of prompts.

    A direction is the test's; "smaller than `delta`" and coverage are those of `adjusted_interval`.
    """
    count = values.shape[1]
    prompts, answer = np.full(count, max(levels)), np.full(count, OPEN, dtype="U16")
    covered, still = np.ones(count, bool), np.ones(count, bool)
    positive, negative = (np.cumsum(sign * values > 0, axis=0) for sign in (1, -1))
    for n, level in levels.items():
        low, high = adjusted_interval(values[:n], level)
        leans = still & (sign_p_values(positive[n - 1], negative[n - 1]) <= 1 - level)
        small = still & ~leans & (-delta < low) & (high < delta)
        answer[leans] = np.where(positive[n - 1] > negative[n - 1], FIRST, SECOND)[leans]
        answer[small] = EQUIVALENCE
        covered[still] = ((low <= truth) & (truth <= high))[still]
        prompts[still] = n
        still &= ~(leans | small)
    return StoppedAudits(prompts, answer, covered)


def decided_pairs(
    values: NDArray[np.float64], truth: float, *, delta: float = DELTA, most: int = MOST
) -> Iterator[tuple[str, StoppedAudits]]:
    """Yield where the same audits stop under each design; that which stops by itself knows that no value exceeds 1."""
    looks, audits = looks_until(most), PromptAudits(values, 1.0)
    seen = {n: audits.usual(n, LEVEL, np.arange(values.shape[1])) for n in looks}
    yield STOPS, by_itself(audits, question(delta, most), MEASURE, truth, seen)
    for name, levels in levels_of(looks).items():
        yield name, by_sign_test(values, delta, levels, truth)
