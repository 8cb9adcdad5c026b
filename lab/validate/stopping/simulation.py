"""Audits that stop, in worlds whose truth is known: how each design answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from lab.validate.statistics import words
from lab.validate.statistics.words import WordWorld, draw_words
from lab.validate.stopping.audits import PromptAudits, WordAudits
from lab.validate.stopping.designs import MOST, Stopped, decided, rows
from lab.validate.stopping.worlds import LEANING, NULLS, PromptWorld

SIZES, REFERENCES = (3, 3, 0), 3  # words a side and of the reference, as in the default configuration
WORDS_DELTA = 0.02  # the least gap that matters, of cosines
WORD_NULLS = (*words.WORD_WORLDS, *words.HOSTILE, *words.ODD, *words.PICTURES)
WORD_LEANING = (*words.LEANING, *words.ODD_LEANING, *words.PICTURES_LEANING)
TOGETHER = 100  # audits that are drawn at a time
TRUTH, TRUTH_PROMPTS = 4000, 24  # audits over whose prompts the gap of a leaning world is the mean
PROMPT_WORLDS = {world.name: world for world in (*NULLS, *LEANING)}
WORD_WORLDS = {world.name: world for world in (*WORD_NULLS, *WORD_LEANING)}


def of_prompts(world: PromptWorld, audits: int, seed: int = 0) -> dict[str, Any]:
    """Return how each design answers in a world of differences of prompts."""
    rng = np.random.default_rng([seed, 1100, list(PROMPT_WORLDS).index(world.name)])
    values = world.drawn(MOST, audits, rng)
    parts = decided(
        PromptAudits(values, world.reach), world.delta, world.mean, bounded=world.reach is not None
    )
    return _row("prompts", world.name, world.mean, world.delta, rows([parts], world.mean, world.delta))


def of_words(world: WordWorld, audits: int, seed: int = 0) -> dict[str, Any]:
    """Return how each design answers in a world of vectors of words."""
    truth = true_gap(world, seed)
    parts = (
        decided_words(world, truth, start // TOGETHER, min(TOGETHER, audits - start), seed)
        for start in range(0, audits, TOGETHER)
    )
    return _row("words", world.name, truth, WORDS_DELTA, rows(parts, truth, WORDS_DELTA))


def true_gap(world: WordWorld, seed: int = 0) -> float:
    """Return the gap of a world over other prompts and other words: 0 where nothing leans."""
    if not world.lean:
        return 0.0
    rng = _generator(world, seed, TRUTH)
    drawn = [_drawn(world, TRUTH_PROMPTS, TOGETHER, rng) for _ in range(0, TRUTH, TOGETHER)]
    return float(np.mean([some.values.mean() for some in drawn]))


def decided_words(
    world: WordWorld, truth: float, part: int, audits: int = TOGETHER, seed: int = 0
) -> Iterator[tuple[str, Stopped]]:
    """Yield where the audits of one part stop under each design."""
    drawn = _drawn(world, MOST, audits, _generator(world, seed, part))
    return decided(drawn, WORDS_DELTA, truth)


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
