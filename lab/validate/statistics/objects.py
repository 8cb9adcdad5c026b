"""Sweeps over worlds of objects: tests of tables and of single objects, intervals, claims where a detector errs.

In the worlds of claims an object is in an image where a normal variable falls below its frequency's quantile: what the
prompt, the prompt and side, the word and the image give. A detector errs by side; its errors agree in part between the
images of a prompt and side. A claim is false where both sides have one frequency over all words of their meaning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from analysis.stats.detector_correction import Labels, corrected_presence
from analysis.stats.object_tests import bias_scores, presence_differences
from analysis.stats.table_tests import chi_square_test, label_swap_test
from analysis.tables.objects.claims import COUNTS, HEDGED, HINT, HOLDS, DetectorCounts, claim_table
from lab.validate.statistics.rates import (
    AT_MOST,
    COLUMNS,
    COVERS,
    LEVEL,
    POWER,
    counted_row,
    covered_row,
    rejection_row,
    sweep,
)
from lab.validate.statistics.worlds import COVERED_PRESENCE, PRESENCE, PresenceWorld, table_of

PAPER = "chi-square of detections (paper)"
PAIR = ("feminine", "masculine")


def object_rejections(
    simulations: int = 4000, seed: int = 0, *, worlds: tuple[PresenceWorld, ...] = PRESENCE
) -> pd.DataFrame:
    """How often each test of objects rejects where there is no difference; of whole tables a fifth as many, of 20."""

    def rows(world: PresenceWorld, rng: np.random.Generator, _: int) -> Iterator[tuple]:
        exact = presence_differences(world.draw(simulations, rng), *PAIR).p_value
        yield rejection_row(world.name, "paired exact (McNemar)", exact, AT_MOST)
        found = []
        for _ in range(max(2, simulations // 5)):
            table, drawn = world.draw(20, rng), int(rng.integers(2**31))
            swaps = detections = label_swap_test(table, permutations=199, seed=drawn)
            if world.repeats:
                detections = label_swap_test(table, of="detections", permutations=199, seed=drawn)
            paper = chi_square_test(table, of="detections")
            found.append([swaps.p_value, detections.p_value, paper.p_value])
        names = ("label swaps, table", "label swaps, detections", PAPER)
        for name, p_value in zip(names, np.array(found).T):
            yield rejection_row(world.name, name, p_value, LEVEL if name == PAPER else AT_MOST)

    return sweep(worlds, rows, 0, seed)


def object_coverage(simulations: int = 2000, seed: int = 0) -> pd.DataFrame:
    """How often 95 % intervals of objects cover, 100 prompts, masculine 1.5 times as frequent as feminine."""

    def rows(world: PresenceWorld, rng: np.random.Generator, _: int) -> Iterator[tuple]:
        table = world.draw(simulations, rng, n_prompts=100, shift=(1.0, 1.5))
        yield covered_row(world.name, "bias score of presence, wilson", 0.6, bias_scores(table, *PAIR))
        if world.repeats:
            detections = bias_scores(table, *PAIR, of="detections")
            yield covered_row(world.name, "bias score of detections, wilson", 0.6, detections)
        differences = presence_differences(table, *PAIR)
        yield covered_row(world.name, "difference of presence, adjusted", 0.5 * world.frequency, differences)

    return sweep(COVERED_PRESENCE, rows, 300, seed)


SIDES = {"f": ["f", "f1", "f2"], "m": ["m", "m1", "m2"]}
NAMES = tuple(name for side in SIDES.values() for name in side)
OBJECTS = 38  # as in toyworld
PROMPT, SIDE = 0.3, 0.15  # variances; the image has the rest
AGREE = 0.5  # of the detector's errors within a prompt and side
MANY = 96  # prompts, with which a detector alone makes differences that are significant
BASES = (0.05, 0.1, 0.2, 0.4)  # frequencies of objects
Truth = tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float64]]


@dataclass(frozen=True)
class ClaimWorld:
    """Words and detector.

    The share of the objects whose sides differ (`real`), by which their quantiles differ, the standard deviation of a
    word's quantile around its side's, and the detector's errors by side in every second object.
    """

    name: str
    real: float = 0.0
    effect: float = 1.5
    words: float = 0.0
    misses: tuple[float, float] = (0.0, 0.0)
    invents: tuple[float, float] = (0.0, 0.0)

    def draw(self, rng: np.random.Generator, *, prompts: int = 24, words: int = 3) -> Truth:
        """Truth and detections, shape (n_prompts, 2, n_words, n_objects), and the sides' quantiles (2, n_objects)."""
        base = special.ndtri(rng.choice(BASES, OBJECTS)) * np.sqrt(1 + self.words**2)
        differ = np.arange(OBJECTS) < round(self.real * OBJECTS)
        lean = differ * rng.choice([-1, 1], OBJECTS) * self.effect / 2
        quantile = base + np.array([[-1], [1]]) * lean
        shape = (prompts, 2, words, OBJECTS)

        def normal(variance: float, *axes: int) -> NDArray[np.float64]:
            size = tuple(length if axis in axes else 1 for axis, length in enumerate(shape))
            return np.sqrt(variance) * rng.standard_normal(size)

        latent = normal(PROMPT, 0, 3) + normal(SIDE, 0, 1, 3) + normal(self.words**2, 1, 2, 3)
        truth = latent + normal(1 - PROMPT - SIDE, 0, 1, 2, 3) < quantile[None, :, None]
        error = normal(AGREE, 0, 1, 3) + normal(1 - AGREE, 0, 1, 2, 3)
        second = np.arange(OBJECTS) % 2 == 1
        sees = 1 - np.array(self.misses)[:, None] * second
        invents = np.array(self.invents)[:, None] * second
        detected = error < special.ndtri(np.where(truth, sees[None, :, None], invents[None, :, None]))
        return truth, detected, quantile


CLAIMS = (
    ClaimWorld("sides are exchanged labels"),
    ClaimWorld("words differ a little, sides do not", words=0.3),
    ClaimWorld("words differ much, sides do not", words=0.8),
    ClaimWorld("the detector misses more on one side", misses=(0.5, 0.05)),
    ClaimWorld("the detector invents more on one side", invents=(0.01, 0.15)),
    ClaimWorld("a third of the objects differ", real=1 / 3),
    ClaimWorld("a third differ, words too", real=1 / 3, words=0.3),
    ClaimWorld("a third differ, the detector too", real=1 / 3, misses=(0.4, 0.05), invents=(0.01, 0.08)),
)


def claim_rates(
    simulations: int = 100,
    seed: int = 0,
    *,
    worlds: tuple[ClaimWorld, ...] = CLAIMS,
    prompts: int = 24,
    labelled: bool = True,
) -> pd.DataFrame:
    """False claims among the claims, and real differences claimed.

    A hedged sentence is of its words alone: where words differ it is not false. Without labels all are hints.
    """
    kinds = {HOLDS: "claims", HEDGED: "hedged sentences"} if labelled else {HINT: "hints"}

    def rows(world: ClaimWorld, rng: np.random.Generator, _: int) -> Iterator[tuple]:
        found, claimed = {kind: [] for kind in kinds}, []
        for _ in range(simulations):
            truth, detected, quantile = world.draw(rng, prompts=prompts)
            real = quantile[0] != quantile[1]
            counts = _counts(truth, detected) if labelled else None
            seen = table_of(*[detected.reshape(prompts, -1, OBJECTS).astype(np.int64)] * 2, NAMES)
            claims = claim_table(seen, [("f", "m")], SIDES, counts)["claim"].to_numpy()
            claimed.append((claims == HOLDS).any())
            for kind, rates in found.items():
                chosen = claims == kind
                false = (chosen & ~real).sum() / max(chosen.sum(), 1)
                rates.append((false, (chosen & real).sum() / max(real.sum(), 1)))
        if not labelled:
            yield counted_row(world.name, "runs with a claim, nothing labelled", claimed)
        for kind, name in kinds.items():
            false, right = np.array(found[kind], float).T
            if kind != HEDGED or not world.words:
                yield counted_row(world.name, f"false among the {name}", false)
            if world.real:
                yield counted_row(world.name, f"real differences among the {name}", right, POWER)

    return sweep(worlds, rows, 900, seed)


def hint_rates(simulations: int = 26, seed: int = 0) -> pd.DataFrame:
    """`claim_rates` without labels, of so many prompts that a detector alone makes differences that are significant."""
    return claim_rates(simulations, seed, prompts=MANY, labelled=False)


def correction_coverage(simulations: int = 100, seed: int = 0) -> pd.DataFrame:
    """How often intervals hold the truth behind a detector that errs by side, by the prompts that are labelled.

    Of objects detected ten times or more; *none*: as detected.
    """
    world, rows = ClaimWorld("", real=1 / 2, effect=1.2, misses=(0.4, 0.1), invents=(0.01, 0.06)), []
    for name, every in {
        "none": 0,
        "all images": 1,
        "a third of the prompts": 3,
        "a sixth of the prompts": 6,
    }.items():
        rng, hits = np.random.default_rng([seed, 950]), []
        for _ in range(simulations):
            truth, detected, quantile = world.draw(rng)
            result = _corrected(truth, detected, every)
            share = special.ndtr(quantile)
            wanted = share[1] - share[0]
            held = (result.difference_low <= wanted) & (wanted <= result.difference_high)
            hits += list(held[detected.sum(axis=(0, 1, 2)) >= 10])
        test = "difference, corrected by labels" if every else "difference, as detected"
        rows.append(counted_row(name, test, hits, COVERS))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _cells(truth: NDArray[np.bool_], detected: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], ...]:
    """Hits, missed, false and rejected."""
    return truth & detected, truth & ~detected, ~truth & detected, ~truth & ~detected


def _corrected(truth: NDArray[np.bool_], detected: NDArray[np.bool_], every: int) -> pd.DataFrame:
    """Presence with every so many prompts labelled; 0: taking detections for the truth."""
    images = np.full(truth.shape[:2], truth.shape[2])
    cells = [kind.sum(axis=2).astype(np.float64) for kind in _cells(truth if every else detected, detected)]
    for cell in cells:
        cell[np.arange(len(cell)) % max(every, 1) != 0] = 0
    return corrected_presence(detected.sum(axis=2), images, Labels(*cells))


def _counts(truth: NDArray[np.bool_], detected: NDArray[np.bool_]) -> DetectorCounts:
    prompt, side, word, what = np.indices(truth.shape).reshape(4, -1)
    names = np.array(list(SIDES.values()), object)[side, word]
    objects = np.array([f"object {number}" for number in range(OBJECTS)], object)[what]
    kinds = {name: kind.ravel().astype(float) for name, kind in zip(COUNTS, _cells(truth, detected))}
    return DetectorCounts(pd.DataFrame({"prompt": prompt, "indicator": names, "object": objects} | kinds))
