"""Audits that stop, in worlds whose truth is known: how each design answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.methods.stopping.question import GAP, INTERVAL
from lab.validate.statistics import words
from lab.validate.statistics.words import WordWorld, draw_words
from lab.validate.stopping.audits import PromptAudits, WordAudits
from lab.validate.stopping.designs import MOST, StoppedAudits, decided, rows
from lab.validate.stopping.objects import DELTA as OBJECTS_DELTA
from lab.validate.stopping.objects import PAIR_WORLDS, PairWorld, decided_pairs
from lab.validate.stopping.worlds import (
    CROSSED,
    GIVEN_LEANING,
    GIVEN_NULLS,
    LEANING,
    NESTED,
    NULLS,
    PromptWorld,
)

SIZES, REFERENCES = (3, 3, 0), 3  # words a side and of the reference, as in the default configuration
WORDS_DELTA = 0.02  # the least gap that matters, of cosines
WORD_NULLS = (*words.WORD_WORLDS, *words.HOSTILE, *words.ODD, *words.PICTURES)
WORD_LEANING = (*words.LEANING, *words.ODD_LEANING, *words.PICTURES_LEANING)
TOGETHER = 100  # audits that are drawn at a time
TRUTH, TRUTH_PROMPTS = 4000, 24  # audits over whose prompts the gap of a leaning world is the mean
PROMPT_WORLDS = {world.name: world for world in (*NULLS, *LEANING)}
WORD_WORLDS = {world.name: world for world in (*WORD_NULLS, *WORD_LEANING)}
SEED_WORLDS = {world.name: world for world in (*NESTED, *CROSSED)}
GIVEN_WORLDS = {world.name: world for world in (*GIVEN_NULLS, *GIVEN_LEANING)}
ASKED_WORDS = ("words alike", "10 % of images differ", "lean 0.3", "lean .4, own parts .2 and .2")
WORDS_WIDTH = 0.05  # half the width that is wanted of a gap over words


def of_prompts(world: PromptWorld, audits: int, seed: int = 0, kind: str = GAP) -> dict[str, Any]:
    """Return how each design answers in a world of differences of prompts."""
    values = drawn_prompts(world, audits, seed)
    parts = decided(
        PromptAudits(values, world.reach), world.delta, world.mean, bounded=world.reach is not None, kind=kind
    )
    return _row("prompts", world.name, world.mean, world.delta, rows([parts], world.mean, world.delta))


def drawn_prompts(world: PromptWorld, audits: int, seed: int = 0, most: int = MOST) -> NDArray[np.float64]:
    """Return the differences of the prompts of a world's audits, shape (most, n_audits)."""
    rng = np.random.default_rng([seed, 1100, list(PROMPT_WORLDS).index(world.name)])
    return world.drawn(most, audits, rng)


def of_seeds(world: PromptWorld, audits: int, seed: int = 0) -> dict[str, Any]:
    """Return how each design answers in a world of several seeds a prompt."""
    rng = np.random.default_rng([seed, 1400, list(SEED_WORLDS).index(world.name)])
    values = world.drawn(MOST, audits, rng)
    designs = rows(
        [decided(PromptAudits(values), world.delta, world.mean, bounded=False)], world.mean, world.delta
    )
    row = _row("seeds", world.name, world.mean, world.delta, designs)
    return {**row, "seeds": world.seeds, "refused": world in CROSSED}


def of_given(world: PromptWorld, audits: int, seed: int = 0) -> dict[str, Any]:
    """Return how each design answers in a world of seeds of prompts that stay the same."""
    rng = np.random.default_rng([seed, 1600, list(GIVEN_WORLDS).index(world.name)])
    values = PromptAudits(world.drawn(MOST, audits, rng))
    designs = rows([decided(values, world.delta, world.mean, bounded=False)], world.mean, world.delta)
    return _row("given", world.name, world.mean, world.delta, designs)


def of_pairs(world: PairWorld, audits: int, seed: int = 0) -> dict[str, Any]:
    """Return how each design answers in a world of paired presence of an object."""
    rng = np.random.default_rng([seed, 1500, list(PAIR_WORLDS).index(world.name)])
    values = world.drawn(MOST, audits, rng)
    row = _row(
        "objects",
        world.name,
        world.mean,
        OBJECTS_DELTA,
        rows([decided_pairs(values, world.mean)], world.mean, OBJECTS_DELTA),
    )
    if not world.unseen:
        return row
    seen = {name: int(stopped.covered.sum()) for name, stopped in decided_pairs(values, world.observed)}
    return {**row, "observed": round(world.observed, 5), "covered_observed": seen}


def of_words(
    world: WordWorld, audits: int, seed: int = 0, kind: str = GAP, within: float = WORDS_DELTA
) -> dict[str, Any]:
    """Return how each design answers in a world of vectors of words."""
    truth = true_gap(world, seed)
    parts = (
        decided_words(world, truth, start // TOGETHER, min(TOGETHER, audits - start), seed, kind, within)
        for start in range(0, audits, TOGETHER)
    )
    return word_row(world, truth, rows(parts, truth, within), seed)


def of_question(name: str, kind: str, audits: int, seed: int = 0) -> dict[str, Any]:
    """Return how each design answers a direction alone, or the width of an interval, in a world of a name."""
    if name in PROMPT_WORLDS:
        row = of_prompts(PROMPT_WORLDS[name], audits, seed, kind)
    else:
        within = WORDS_WIDTH if kind == INTERVAL else WORDS_DELTA
        row = {**of_words(WORD_WORLDS[name], audits, seed, kind, within), "delta": within}
    return {**row, "part": "questions", "question": kind}


def word_row(world: WordWorld, truth: float, designs: dict[str, Any], seed: int = 0) -> dict[str, Any]:
    """Return what is stored of a world of words: also its mean gap, where it is meant to be 0."""
    row = _row("words", world.name, truth, WORDS_DELTA, designs)
    if world.lean:
        return row
    return {**row, "gap": [round(value, 4) for value in mean_gap(world, TRUTH // 4, seed)]}


def true_gap(world: WordWorld, seed: int = 0) -> float:
    """Return the gap of a world over other prompts and other words: 0 where no side is meant to be nearer."""
    return mean_gap(world, TRUTH, seed)[0] if world.lean else 0.0


def mean_gap(world: WordWorld, audits: int, seed: int = 0) -> tuple[float, float]:
    """Return the mean gap of many audits of few prompts, which may be other than 0 where nothing leans; its error."""
    rng = _generator(world, seed, TRUTH)
    drawn = [_drawn(world, TRUTH_PROMPTS, TOGETHER, rng) for _ in range(0, audits, TOGETHER)]
    gaps = np.concatenate([some.values.mean(axis=0) for some in drawn])
    return float(gaps.mean()), float(gaps.std(ddof=1) / np.sqrt(len(gaps)))


def decided_words(
    world: WordWorld,
    truth: float,
    part: int,
    audits: int = TOGETHER,
    seed: int = 0,
    kind: str = GAP,
    within: float = WORDS_DELTA,
) -> Iterator[tuple[str, StoppedAudits]]:
    """Yield where the audits of one part stop under each design."""
    return decided(drawn_words(world, part, audits, seed), within, truth, kind=kind)


def drawn_words(world: WordWorld, part: int, audits: int = TOGETHER, seed: int = 0) -> WordAudits:
    """Return the audits of one part of a world."""
    return _drawn(world, MOST, audits, _generator(world, seed, part))


def _generator(world: WordWorld, seed: int, part: int) -> np.random.Generator:
    return np.random.default_rng([seed, 1200, list(WORD_WORLDS).index(world.name), part])


def _drawn(world: WordWorld, prompts: int, audits: int, rng: np.random.Generator) -> WordAudits:
    found = draw_words(world, SIZES, prompts, audits, rng, references=REFERENCES)
    return WordAudits((found.sides[0], found.sides[1]), (found.within[0], found.within[1]))


def _row(part: str, name: str, truth: float, delta: float, designs: dict[str, Any]) -> dict[str, Any]:
    return {
        "part": part,
        "world": name,
        "truth": round(truth, 5),
        "delta": round(delta, 5),
        "designs": designs,
    }
