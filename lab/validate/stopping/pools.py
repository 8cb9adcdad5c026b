"""Long runs whose prompts are drawn again and again in another order: what audits that stop find on real images.

A pool keeps the nearness of the words of each prompt, so that the audits can be made again without the images.
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.methods.stopping.gaps import RUN
from analysis.metrics.registry import definition
from analysis.study import contrasts, indicators
from analysis.tables.similarities.control_columns import SideWords, words_of
from analysis.tables.similarities.pictures import image_similarities
from analysis.tables.similarities.stored import StoredSimilarities
from lab.validate.stopping.audits import WordAudits
from lab.validate.stopping.designs import LEVEL, LOOKS, MOST, STOPS, STOPS_BOUNDED, decided, rows
from lab.validate.tracing.coverage import templates
from probes.errors import UserError
from probes.runs.store import Run

MEASURES = {"z0": "cosine", "ssim": "ssim"}  # measure of a configuration, and its name in tables
STEP = 1e-5  # similarities are kept to so much
ORDERS = 60
STEPS = 10
LONG_RUNS = {  # the model and the noise of each
    "toyworld": ("toyworld", "own"),
    "toyworld-mirror": ("toyworld-mirror", "own"),
    "toyworld-null": ("toyworld-null", "own"),
    "toyworld-null-independent": ("toyworld-null", "independent"),
}
NULL = "null"  # ends the name of a model in which no word leans


def configurations(words: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the configuration of each long run, by its name.

    Parameters
    ----------
    words : mapping
        A configuration whose indicators are taken, such as ``triplets.yaml``.
    """
    return {
        name: {
            "name": name,
            "model": model,
            **{key: words[key] for key in ("indicators", "reference", "contrasts")},
            "prompts": templates(MOST),
            "seeds": [0],
            "sampler": {"steps": STEPS, "noise": noise},
            "capture": {"sites": ["latent.final"], "words": False},
        }
        for name, (model, noise) in LONG_RUNS.items()
    }


def words_in(run: Run) -> SideWords:
    """Return the words of a run's first contrast."""
    controls = {one.name: one.control for one in indicators(run.config) if one.control}
    return words_of(contrasts(run.config)[0], run.config.reference, controls)


def pairs_of(words: SideWords) -> list[tuple[str, str]]:
    """Return the pairs of words that a gap is made of."""
    across = [(own, name) for side in (words.first, words.second) for own in words.reference for name in side]
    return [*across, *(pair for side in (words.first, words.second) for pair in combinations(side, 2))]


def stored_pool(paths: Sequence[Path]) -> dict[str, Any]:
    """Return what is kept of finished runs of one design: how near the words of each prompt are to each other.

    Several runs of other seeds follow each other, as if their prompts were others. Only the first seed of each is read.
    """
    runs = [Run.open(path) for path in paths]
    words = words_in(runs[0])
    if any(words_in(run) != words for run in runs):
        raise UserError(f"{paths[0]}: expected runs of the same words, got others: name runs of one design")
    near = [_near(run, pairs_of(words)) for run in runs]
    kept = {key: np.concatenate([one[key] for one in near], axis=1) for key in MEASURES}
    config = runs[0].config
    return {
        "model": config.model,
        "noise": config.sampler.noise,
        "steps": config.sampler.steps,
        "runs": len(runs),
        "words": {"first": words.first, "second": words.second, "reference": words.reference},
        "near": {key: packed(values[:, ~np.isnan(values).any(axis=0)]) for key, values in kept.items()},
    }


def _near(run: Run, pairs: Sequence[tuple[str, str]]) -> dict[str, NDArray[np.float64]]:
    """Nearness of pairs of words by each measure, shape (n_pairs, n_prompts)."""
    names = [one.name for one in indicators(run.config)]
    samples = run.samples(["sample_id", "triplet", "seed", "indicator", "fault"])
    pictures = image_similarities(samples, run.images, names, ("ssim",), run.left_out())
    similarities, found = StoredSimilarities(run, pictures, samples), {}
    for key, name in MEASURES.items():
        family = similarities.family(*definition(name).place)
        if family is None:
            raise UserError(
                f"{run.path}: expected {key} among what the run stores, found none: capture latent.final"
            )
        found[key] = np.array([family.pair(*pair, names)[:, 0, 0] for pair in pairs])
    return found


def packed(near: NDArray[np.float64]) -> str:
    """Return similarities of shape (n_pairs, n_prompts) as text, in whole steps of `STEP`."""
    whole = np.round(near / STEP).astype("<i4")
    return f"{len(near)}:" + b64encode(zlib.compress(whole.tobytes(), 9)).decode()


def unpacked(text: str) -> NDArray[np.float64]:
    """Return what `packed` made a text of.

    Examples
    --------
    >>> unpacked(packed(np.array([[0.5, -0.25], [1.0, 0.125]]))).tolist()
    [[0.5, -0.25], [1.0, 0.125]]
    """
    pairs, data = text.split(":")
    return np.frombuffer(zlib.decompress(b64decode(data)), "<i4").reshape(int(pairs), -1) * STEP


def audits_of(pool: Mapping[str, Any], measure: str, orders: int = ORDERS, seed: int = 0) -> WordAudits:
    """Return audits of a pool, each of all its prompts in a random order of its own."""
    near = unpacked(pool["near"][measure])
    rng = np.random.default_rng([seed, 1300])
    places = np.array([rng.permutation(near.shape[1]) for _ in range(orders)]).T
    return word_audits(near[:, places], SideWords(**pool["words"]), measure)


def word_audits(near: NDArray[np.float64], words: SideWords, measure: str) -> WordAudits:
    """Return audits by how near their words are to each other.

    Parameters
    ----------
    near : ndarray, shape (n_pairs, n_prompts, n_audits)
        Of the pairs of `pairs_of`.
    words : SideWords
    measure : str
        A key of `MEASURES`.
    """
    ordered = dict(zip(pairs_of(words), near))
    sides = tuple(
        np.array([[ordered[own, name] for name in side] for own in words.reference])
        for side in (words.first, words.second)
    )
    within = tuple(_within(ordered, side) for side in (words.first, words.second))
    metric = definition(MEASURES[measure])
    return WordAudits((sides[0], sides[1]), (within[0], within[1]), metric.high - metric.low)


def _within(ordered: Mapping[tuple[str, str], NDArray[np.float64]], side: list[str]) -> NDArray[np.float64]:
    some = next(iter(ordered.values()))
    values = np.full((len(side), len(side), *some.shape), np.nan)
    for (a, one), (b, two) in combinations(enumerate(side), 2):
        values[a, b] = values[b, a] = ordered[one, two]
    return values


def replayed(name: str, pool: Mapping[str, Any], measure: str, orders: int = ORDERS) -> dict[str, Any]:
    """Return how each design answers over random orders of a pool.

    Returns
    -------
    dict
        As of `lab.validate.stopping.simulation`. ``truth`` is the gap of all prompts of the pool, and 0 where no word
        leans; ``pool`` that gap in either case.
    """
    audits = audits_of(pool, measure, orders)
    return {"part": "runs", "world": name, **answered(audits, measure, null=pool["model"].endswith(NULL))}


def answered(audits: WordAudits, measure: str, *, null: bool) -> dict[str, Any]:
    """Return how each design answers in audits of a benchmark model, and what the truth is.

    Parameters
    ----------
    audits : WordAudits
    measure : str
    null : bool
        Whether no word leans in the model. Otherwise the truth is the mean gap of all that was drawn.
    """
    gap, delta = float(audits.values.mean()), definition(MEASURES[measure]).least_delta
    truth = 0.0 if null else gap
    designs = rows([decided(audits, delta, truth, most=len(audits.values))], truth, delta)
    sd = float(audits.values.std(ddof=1))
    words = sum(audits.sides[0].shape[:2]) + audits.sides[1].shape[1]
    return {
        "measure": measure,
        "truth": round(truth, 5),
        "pool": round(gap, 5),
        "d_z": round(gap / sd, 2),
        "delta": delta,
        "prompts": len(audits.values),
        "images": {name: round(designs[name]["mean"] * words) for name in (STOPS, STOPS_BOUNDED)},
        "designs": designs,
    }


def path_of(pool: Mapping[str, Any], measure: str, audit: int) -> list[list[float]]:
    """Return what an audit finds at each look, also after it would have stopped: prompts, gap and both ends."""
    audits = audits_of(pool, measure)
    most = len(audits.values)
    found = [audits.after(audit, n, LEVEL, RUN) for n in LOOKS if n <= most]
    return [[one.n_prompts, *(round(value, 5) for value in (one.gap, one.low, one.high))] for one in found]
