"""Error rates of claims about objects: worlds where words, or a detector, make differences of their own.

An object is in an image where a normal variable falls below its frequency's quantile; the variable adds what the
prompt, the prompt and side, the word and the image give. A detector errs by side; its errors agree in part between the
images of a prompt and side. A claim is false where the two sides have one frequency over all words of their meaning.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from analysis.stats.detector_correction import Labels, corrected_presence
from analysis.stats.object_counts import ObjectTable
from analysis.tables.objects.claims import COUNTS, HEDGED, HINT, HOLDS, DetectorCounts, claim_table
from lab.templates import render

SIDES = {"f": ["f", "f1", "f2"], "m": ["m", "m1", "m2"]}
OBJECTS = 38  # as in toyworld
PROMPT, SIDE = 0.3, 0.15  # variances; the image has the rest
AGREE = 0.5  # of the detector's errors within a prompt and side
MANY = 96  # prompts, with which a detector alone makes differences that are significant
LABELLED = {
    "all images": 1,
    "a third of the prompts": 3,
    "a sixth of the prompts": 6,
}  # every so many prompts


@dataclass(frozen=True)
class ClaimWorld:
    """Words and detector; see the module.

    The share of the objects whose sides differ (`real`), by which their quantiles differ, the standard deviation of a
    word's quantile around its side's, and the detector's errors by side in every second object.
    """

    name: str
    real: float = 0.0
    effect: float = 1.5
    words: float = 0.0
    misses: tuple[float, float] = (0.0, 0.0)
    invents: tuple[float, float] = (0.0, 0.0)


WORLDS = (
    ClaimWorld("sides are exchanged labels"),
    ClaimWorld("words differ a little, sides do not", words=0.3),
    ClaimWorld("words differ much, sides do not", words=0.8),
    ClaimWorld("the detector misses more on one side", misses=(0.5, 0.05)),
    ClaimWorld("the detector invents more on one side", invents=(0.01, 0.15)),
    ClaimWorld("a third of the objects differ", real=1 / 3),
    ClaimWorld("a third differ, words too", real=1 / 3, words=0.3),
    ClaimWorld("a third differ, the detector too", real=1 / 3, misses=(0.4, 0.05), invents=(0.01, 0.08)),
)
BASES = (0.05, 0.1, 0.2, 0.4)  # frequencies of objects


def draw_claims(
    world: ClaimWorld, rng: np.random.Generator, *, prompts: int = 24, words: int = 3
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float64]]:
    """Truth and detections, shape (n_prompts, 2, n_words, n_objects), and the sides' quantiles (2, n_objects)."""
    base = special.ndtri(rng.choice(BASES, OBJECTS)) * np.sqrt(1 + world.words**2)
    lean = (
        (np.arange(OBJECTS) < round(world.real * OBJECTS)) * rng.choice([-1, 1], OBJECTS) * world.effect / 2
    )
    quantile = base + np.array([[-1], [1]]) * lean
    shape = (prompts, 2, words, OBJECTS)

    def normal(variance: float, *axes: int) -> NDArray[np.float64]:
        size = tuple(length if axis in axes else 1 for axis, length in enumerate(shape))
        return np.sqrt(variance) * rng.standard_normal(size)

    latent = normal(PROMPT, 0, 3) + normal(SIDE, 0, 1, 3) + normal(world.words**2, 1, 2, 3)
    truth = latent + normal(1 - PROMPT - SIDE, 0, 1, 2, 3) < quantile[None, :, None]
    error = normal(AGREE, 0, 1, 3) + normal(1 - AGREE, 0, 1, 2, 3)
    second = np.arange(OBJECTS) % 2 == 1
    sees = 1 - np.array(world.misses)[:, None] * second
    invents = np.array(world.invents)[:, None] * second
    return (
        truth,
        error < special.ndtri(np.where(truth, sees[None, :, None], invents[None, :, None])),
        quantile,
    )


def claim_rates(
    worlds: tuple[ClaimWorld, ...] = WORLDS,
    *,
    simulations: int = 200,
    seed: int = 0,
    prompts: int = 24,
    labelled: int = 1,
) -> pd.DataFrame:
    """False claims among the claims, and real differences claimed; one row per world.

    Of claims, hedged sentences and hints: `_false` (mean share of false ones), `_any` (runs with a false one), `_real`
    (real differences found). A hedged sentence is of its words alone: where words differ it is not false, and NaN is
    shown. `labelled`: every so many prompts have labels; with 0 all are hints.
    """
    rows = []
    for number, world in enumerate(worlds):
        rng, rates = np.random.default_rng([seed, 900 + number]), []
        for _ in range(simulations):
            truth, detected, quantile = draw_claims(world, rng, prompts=prompts)
            real = quantile[0] != quantile[1]
            counts = _counts(truth, detected, labelled) if labelled else None
            claims = claim_table(_table(detected), [("f", "m")], SIDES, counts)["claim"]
            for kind in (HOLDS, HEDGED, HINT):
                chosen = (claims == kind).to_numpy()
                false = (chosen & ~real).sum()
                rates.append(
                    (
                        kind,
                        false / max(chosen.sum(), 1),
                        false > 0,
                        (chosen & real).sum() / max(real.sum(), 1),
                    )
                )
        table = pd.DataFrame(rates, columns=["kind", "false", "any", "real"]).groupby("kind").mean()
        row = {"world": world.name}
        for kind, name in ((HOLDS, "claims"), (HEDGED, "hedged"), (HINT, "hints")):
            wrong = table.loc[kind, ["false", "any"]] if kind != HEDGED or not world.words else [np.nan] * 2
            row |= dict(zip((f"{name}_false", f"{name}_any"), wrong))
            row[f"{name}_real"] = table.loc[kind, "real"] if world.real else np.nan
        rows.append(row)
    return pd.DataFrame(rows)


def correction_coverage(*, simulations: int = 200, seed: int = 0, prompts: int = 24) -> pd.DataFrame:
    """Return how often intervals hold the truth behind a detector that errs by side; one row per share of labels.

    Of objects detected ten times or more; `none`: as detected.
    """
    world, rows = ClaimWorld("", real=1 / 2, effect=1.2, misses=(0.4, 0.1), invents=(0.01, 0.06)), []
    for name, every in {"none": 0, **LABELLED}.items():
        rng, hits = np.random.default_rng([seed, 950]), []
        for _ in range(simulations):
            truth, detected, quantile = draw_claims(world, rng, prompts=prompts)
            result = _corrected(truth, detected, every)
            share = special.ndtr(quantile / np.sqrt(1 + world.words**2))
            wanted = share[1] - share[0]
            chosen = detected.sum(axis=(0, 1, 2)) >= 10
            held = (result.difference_low <= wanted) & (wanted <= result.difference_high)
            hits.append([held[chosen].sum(), chosen.sum()])
        held, total = np.sum(hits, axis=0)
        rows.append((name, held / total, int(total)))
    return pd.DataFrame(rows, columns=["labels", "difference", "intervals"])


def _corrected(truth: NDArray[np.bool_], detected: NDArray[np.bool_], every: int) -> pd.DataFrame:
    """Presence with every so many prompts labelled; 0: taking detections for the truth."""
    images = np.full(truth.shape[:2], truth.shape[2])
    cells = _cells(truth, detected) if every else _cells(detected, detected)
    for cell in cells:
        cell[np.arange(len(cell)) % max(every, 1) != 0] = 0
    return corrected_presence(detected.sum(axis=2), images, Labels(*cells))


def page_section(*, simulations: int = 200, seed: int = 0) -> str:
    """The part of ``docs/validation/statistics.md`` on claims about objects, in Markdown."""
    return render(
        "statistics_claims",
        simulations=simulations,
        objects=OBJECTS,
        claims=list(claim_rates(simulations=simulations, seed=seed).itertuples(index=False)),
        unchecked=list(
            claim_rates(simulations=simulations // 4 + 1, seed=seed, prompts=MANY, labelled=0).itertuples()
        ),
        many=MANY,
        unchecked_runs=simulations // 4 + 1,
        covered=list(correction_coverage(simulations=simulations, seed=seed).itertuples()),
    )


def _table(present: NDArray[np.bool_]) -> ObjectTable:
    """Object table of presence of shape (n_prompts, 2, n_words, n_objects), one seed a prompt."""
    n, _, _, width = present.shape
    names = tuple(name for side in SIDES.values() for name in side)
    flat = present.reshape(n, -1, width).astype(np.int64)
    what, prompt = np.nonzero(flat.any(axis=1).T)
    cells = flat[prompt, :, what]
    objects = np.array([f"object {number}" for number in range(width)], object)
    return ObjectTable(names, objects, np.arange(n), np.ones(n, np.int64), prompt, what, cells, cells)


def _cells(truth: NDArray[np.bool_], detected: NDArray[np.bool_]) -> list[NDArray[np.float64]]:
    """Hits, missed, false and rejected by prompt, side and object."""
    kinds = (truth & detected, truth & ~detected, ~truth & detected, ~truth & ~detected)
    return [kind.sum(axis=2).astype(np.float64) for kind in kinds]


def _counts(truth: NDArray[np.bool_], detected: NDArray[np.bool_], every: int = 1) -> DetectorCounts:
    words, width = truth.shape[2:]
    names = np.array([own[:words] for own in SIDES.values()], object)
    prompt, side, word, what = np.indices(truth.shape).reshape(4, -1)
    kinds = (truth & detected, truth & ~detected, ~truth & detected, ~truth & ~detected)
    keys = {
        "prompt": prompt,
        "indicator": names[side, word],
        "object": np.array([f"object {number}" for number in range(width)], object)[what],
    }
    table = pd.DataFrame(keys | {name: kind.ravel().astype(float) for name, kind in zip(COUNTS, kinds)})
    return DetectorCounts(table[table["prompt"] % every == 0])
