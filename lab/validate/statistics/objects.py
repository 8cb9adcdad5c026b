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
from analysis.tables.objects.claims import COUNTS, HEDGED, HOLDS, DetectorCounts, claim_table
from lab.templates import render

SIDES = {"f": ["f", "f1", "f2"], "m": ["m", "m1", "m2"]}
OBJECTS = 38  # as in toyworld
PROMPT, SIDE = 0.3, 0.15  # variances; the image has the rest
AGREE = 0.5  # of the detector's errors within a prompt and side
LABELLED = {"the run's images": "own", "a third of the prompts": "third", "300 other images": "other"}


@dataclass(frozen=True)
class ClaimWorld:
    """Words and detector; see the module.

    Attributes
    ----------
    name : str
    real : float
        Share of the objects whose sides differ.
    effect : float
        By which the quantiles of those differ.
    words : float
        Standard deviation of a word's quantile around its side's.
    misses, invents : (float, float)
        Of the detector, by side, in every second object; none in the others.
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


def draw_claims(
    world: ClaimWorld, rng: np.random.Generator, *, prompts: int = 24, words: int = 3
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float64]]:
    """Truth and detections, shape (n_prompts, 2, n_words, n_objects), and the sides' quantiles (2, n_objects)."""
    base = special.ndtri(rng.choice([0.05, 0.1, 0.2, 0.4], OBJECTS)) * np.sqrt(1 + world.words**2)
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
    worlds: tuple[ClaimWorld, ...] = WORLDS, *, simulations: int = 200, seed: int = 0, correct: bool = True
) -> pd.DataFrame:
    """False claims among the claims, and real differences claimed; one row per world.

    Returns
    -------
    DataFrame
        ``world``; of claims and of hedged sentences: ``_false`` (mean share of false ones, 0 where there is none),
        ``_any`` (share of runs with a false one), ``_real`` (share of real differences, NaN where there is none).
        A hedged sentence is of its words alone, so it is compared with their frequencies: with words that differ it is
        not false, and NaN is shown.
    """
    rows = []
    for number, world in enumerate(worlds):
        rng, rates = np.random.default_rng([seed, 900 + number]), []
        for place in range(simulations):
            truth, detected, quantile = draw_claims(world, rng)
            real = quantile[0] != quantile[1]
            counts = _counts(truth, detected) if correct else None
            options = {"resamples": 300, "seed": place}
            claims = claim_table(_table(detected), [("f", "m")], SIDES, counts, **options)["claim"]
            for kind in (HOLDS, HEDGED):
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
        for kind, name in ((HOLDS, "claims"), (HEDGED, "hedged")):
            wrong = table.loc[kind, ["false", "any"]] if kind == HOLDS or not world.words else [np.nan] * 2
            row |= dict(zip((f"{name}_false", f"{name}_any"), wrong))
            row[f"{name}_real"] = table.loc[kind, "real"] if world.real else np.nan
        rows.append(row)
    return pd.DataFrame(rows)


def correction_coverage(*, simulations: int = 200, seed: int = 0, prompts: int = 24) -> pd.DataFrame:
    """Return how often intervals hold the truth behind a detector that errs by side; a row a source of error rates.

    Returns
    -------
    DataFrame
        ``rates`` (``none``: as detected), ``score`` and ``difference`` (shares), ``intervals``: of objects detected ten
        times or more.
    """
    world, rows = ClaimWorld("", real=1 / 2, effect=1.2, misses=(0.4, 0.1), invents=(0.01, 0.06)), []
    for name, kind in {"none": "none", **LABELLED}.items():
        rng, hits = np.random.default_rng([seed, 950]), []
        for place in range(simulations):
            state = rng.bit_generator.state
            truth, detected, quantile = draw_claims(world, rng, prompts=prompts)
            images = np.full((prompts, 2), truth.shape[2])
            labels = _labels(kind, truth, detected, world, state)
            counts = detected.sum(axis=2)
            options = {"resamples": 500, "imputations": 1, "seed": place}
            result = corrected_presence(counts, images, labels, **options)
            share = special.ndtr(quantile / np.sqrt(1 + world.words**2))
            wanted = {"score": share[1] / share.sum(axis=0), "difference": share[1] - share[0]}
            chosen = counts.sum(axis=(0, 1)) >= 10
            ends = {q: (getattr(result, f"{q}_low"), getattr(result, f"{q}_high")) for q in wanted}
            hits.append(
                [
                    *(
                        ((ends[q][0] <= value) & (value <= ends[q][1]))[chosen].sum()
                        for q, value in wanted.items()
                    ),
                    chosen.sum(),
                ]
            )
        score, difference, total = np.sum(hits, axis=0)
        rows.append((name, score / total, difference / total, int(total)))
    return pd.DataFrame(rows, columns=["rates", "score", "difference", "intervals"])


def page_section(*, simulations: int = 200, seed: int = 0) -> str:
    """The part of ``docs/statistics.md`` on claims about objects, in Markdown."""
    return render(
        "statistics_claims",
        simulations=simulations,
        objects=OBJECTS,
        claims=list(claim_rates(simulations=simulations, seed=seed).itertuples(index=False)),
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
    return ObjectTable(names, objects, np.arange(n), np.ones(n, np.int64), prompt, what, cells, cells, 0)


def _cells(truth: NDArray[np.bool_], detected: NDArray[np.bool_]) -> list[NDArray[np.float64]]:
    """Hits, missed, false and rejected by prompt, side and object."""
    kinds = (truth & detected, truth & ~detected, ~truth & detected, ~truth & ~detected)
    return [kind.sum(axis=2).astype(np.float64) for kind in kinds]


def _counts(truth: NDArray[np.bool_], detected: NDArray[np.bool_]) -> DetectorCounts:
    n, _, _, width = truth.shape
    place = np.indices((n, 2, width)).reshape(3, -1)
    keys = {
        "prompt": place[0],
        "indicator": np.array(["f", "m"], object)[place[1]],
        "object": np.array([f"object {number}" for number in range(width)], object)[place[2]],
    }
    cells = {name: cell.ravel() for name, cell in zip(COUNTS, _cells(truth, detected))}
    return DetectorCounts(pd.DataFrame(keys | cells))


def _labels(kind: str, truth, detected, world: ClaimWorld, state: dict) -> Labels:
    if kind == "none":
        return Labels(*(np.full((2, 2, OBJECTS), v) for v in (1e6, 0.0, 0.0, 1e6)), aligned=False)
    if kind == "other":
        rng = np.random.default_rng()
        rng.bit_generator.state = state  # the objects of this world, drawn for other prompts
        truth, detected, _ = draw_claims(world, rng, prompts=50)
    cells = _cells(truth, detected)
    if kind == "third":
        for cell in cells:
            cell[np.arange(len(cell)) % 3 != 0] = 0
    return Labels(*cells, aligned=kind != "other")
