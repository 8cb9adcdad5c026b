"""Worlds of differences of prompts whose mean is known, for audits that stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.stats.effects import prompt_means
from lab.validate.statistics.rare import NOISE, draw_design, draw_shared
from lab.validate.statistics.worlds import GAP_WORLDS, draw_gaps

Draw = Callable[[int, int, np.random.Generator], NDArray[np.float64]]
DELTA = 0.3  # the smallest effect that matters, in standard deviations of a prompt's difference
RATIO = 3  # largest standard deviation of a prompt's difference to the smallest
FREQUENCIES = (0.02, 0.1, 0.5)  # of a difference, where it is -1, 0 or 1
CHANGED, REACH = 0.05, 1 + 10 * NOISE  # what one prompt in so many changes, and no value is larger


@dataclass(frozen=True)
class PromptWorld:
    """Differences of prompts.

    Attributes
    ----------
    name : str
    draw : callable
        From numbers of prompts and audits and a generator to values of mean 0, shape (n_prompts, n_audits).
    sd : float
        Of a value.
    mean : float
        What is added to the values.
    reach : float, optional
        No value is larger, where such a bound is known.
    seeds : int
        Images of a prompt and word, over which a value is the mean.
    """

    name: str
    draw: Draw
    sd: float = 1.0
    mean: float = 0.0
    reach: float | None = None
    seeds: int = 1

    @property
    def delta(self) -> float:
        """The smallest mean that matters."""
        return DELTA * self.sd

    def drawn(self, n_prompts: int, audits: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return values, shape (n_prompts, n_audits)."""
        return self.draw(n_prompts, audits, rng) + self.mean


def _gaps(name: str) -> Draw:
    return lambda n, audits, rng: draw_gaps(name, n, audits, rng, n_seeds=1)[:, 0]


def _design(name: str) -> Draw:
    return lambda n, audits, rng: draw_design(name, n, audits, rng)


def _binary(frequency: float) -> Draw:
    def draw(n: int, audits: int, rng: np.random.Generator) -> NDArray[np.float64]:
        shape = (n, audits)
        return (rng.random(shape) < frequency) * rng.choice([-1.0, 1.0], shape)

    return draw


def _scales(n: int, audits: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Normal values; prompts have standard deviations from 1 to `RATIO`, evenly in their logarithms."""
    return rng.standard_normal((n, audits)) * RATIO ** rng.random((n, audits))


_SCALED = float(np.sqrt((RATIO**2 - 1) / 2 / np.log(RATIO)))
_LOGNORMAL = float(np.sqrt((np.e - 1) * np.e))
_EITHER, _ONE_WAY = (float(np.sqrt(square + NOISE**2)) for square in (CHANGED, CHANGED * (1 - CHANGED)))
_NORMAL, _HEAVY, _SKEWED = (float(np.sqrt(square + 0.25)) for square in (1, 3, 1))

NULLS = (
    PromptWorld("normal", _gaps(GAP_WORLDS[0]), _NORMAL),
    PromptWorld("heavy tails (t, 3 degrees)", _gaps(GAP_WORLDS[1]), _HEAVY),
    PromptWorld(f"scales 1 to {RATIO}", _scales, _SCALED),
    PromptWorld("skewed (exponential)", _gaps(GAP_WORLDS[2]), _SKEWED),
    PromptWorld("lognormal", _design("lognormal"), _LOGNORMAL),
    PromptWorld("5 % change, either way", _design("5 % change, either way"), _EITHER, reach=REACH),
    PromptWorld("5 % change, one way", _design("5 % change, one way"), _ONE_WAY, reach=REACH),
    *(
        PromptWorld(f"{100 * q:g} % are -1 or 1", _binary(q), float(np.sqrt(q)), reach=1.0)
        for q in FREQUENCIES
    ),
)
LEANING = (
    PromptWorld("normal, at δ", _gaps(GAP_WORLDS[0]), _NORMAL, DELTA * _NORMAL),
    PromptWorld("normal, d_z 0.5", _gaps(GAP_WORLDS[0]), _NORMAL, 0.5 * _NORMAL),
    PromptWorld("normal, d_z 1", _gaps(GAP_WORLDS[0]), _NORMAL, _NORMAL),
    PromptWorld("heavy tails, d_z 0.5", _gaps(GAP_WORLDS[1]), _HEAVY, 0.5 * _HEAVY),
    PromptWorld("lognormal, d_z 0.5", _design("lognormal"), _LOGNORMAL, 0.5 * _LOGNORMAL),
    PromptWorld("lognormal, d_z -0.5", _design("lognormal"), _LOGNORMAL, -0.5 * _LOGNORMAL),
    PromptWorld("5 % change by 1", _design("5 % change, one way"), _ONE_WAY, CHANGED, REACH),
)

SEEDS, SHARES = (1, 2, 4, 8), (0.1, 0.3, 0.5)
SEED_EFFECTS = (0.0, DELTA, 0.5)  # in standard deviations of one image's difference


def _seeded(seeds: int, share: float, mean: float, name: str) -> PromptWorld:
    """Prompts have .3 of the variance of one image's difference; what all prompts of a seed share has `share`."""

    def draw(n: int, audits: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return prompt_means(draw_shared(share, n, seeds, audits, rng))

    return PromptWorld(f"{name}, {seeds} {'seed' if seeds == 1 else 'seeds'}", draw, 1.0, mean, seeds=seeds)


def _skewed_seeds(seeds: int) -> PromptWorld:
    def draw(n: int, audits: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return prompt_means(draw_gaps(GAP_WORLDS[2], n, audits, rng, n_seeds=seeds))

    return PromptWorld(f"skewed prompts, {seeds} seeds", draw, _SKEWED, seeds=seeds)


NESTED = (
    *(
        _seeded(seeds, 0.0, mean, {0.0: "no lean", DELTA: "at δ"}.get(mean, f"lean {mean:g}"))
        for mean in SEED_EFFECTS
        for seeds in SEEDS
    ),
    *(_skewed_seeds(seeds) for seeds in SEEDS[1:]),
)
GIVEN_VARIANCE = 0.7  # of one image's difference that is not the prompt's


def _given(prompts: int, share: float, effect: float = 0.0) -> PromptWorld:
    """Seeds of prompts that stay the same: a value is the mean over these, which share `share` of a seed's variance.

    The mean is that of these prompts, whatever they are: their own parts are in it, and no others are asked about.
    """
    sd = float(np.sqrt(share + (GIVEN_VARIANCE - share) / prompts))

    def draw(n: int, audits: int, rng: np.random.Generator) -> NDArray[np.float64]:
        noise = np.sqrt(share) * rng.standard_normal((n, audits))
        own = np.sqrt(GIVEN_VARIANCE - share) * rng.standard_normal((prompts, n, audits))
        return noise + own.mean(axis=0)

    several = f"{prompts} prompt{'s' if prompts > 1 else ''}"
    name = f"{several}, seeds share {share:g}" if share else several
    return PromptWorld(f"{name}, d_z {effect:g}" if effect else name, draw, sd, effect * sd)


GIVEN_NULLS = (
    *(_given(prompts, share) for prompts, share in ((1, 0.0), (3, 0.0), (3, 0.3), (3, 0.5), (8, 0.5))),
    PromptWorld("1 prompt, skewed (exponential)", _gaps(GAP_WORLDS[2]), _SKEWED),
    PromptWorld("1 prompt, 10 % are -1 or 1", _binary(0.1), float(np.sqrt(0.1)), reach=1.0),
)
GIVEN_LEANING = tuple(
    _given(prompts, share, effect) for prompts, share in ((1, 0.0), (3, 0.5)) for effect in (DELTA, 0.5, 1.0)
)
CROSSED = tuple(
    _seeded(seeds, share, 0.0, f"seeds share {share:g}") for share in SHARES for seeds in SEEDS[1:]
)
