"""The simulated worlds that tests and intervals of the product are compared with: gaps, words and presence.

Differences of prompts (`GapWorld`), with seeds that may share their noise; words as vectors (`WordWorld`); presence of
objects (`PresenceWorld`). Audits of attributes are drawn in `lab.validate.statistics.audits`, labelled pages in
`lab.validate.statistics.report_pages`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.stats.object_counts import ObjectTable
from analysis.stats.word_test import word_test

Floats = NDArray[np.float64]
NOISE = 0.01  # of a prompt that does not change, in units of a change
CHANGED = 0.05  # share of the prompts that change


def _changed(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    return (rng.random(shape) < CHANGED) + NOISE * rng.standard_normal(shape)


# Differences of prompts, of mean 0.
DIFFERENCES: dict[str, Callable[[tuple[int, ...], np.random.Generator], Floats]] = {
    "normal": lambda shape, rng: rng.standard_normal(shape),
    "heavy tails (t, 3 degrees)": lambda shape, rng: rng.standard_t(3, shape),
    "skewed (exponential)": lambda shape, rng: rng.exponential(1, shape) - 1,
    "lognormal": lambda shape, rng: rng.lognormal(0, 1, shape) - np.exp(0.5),
    "scales 1 to 3": lambda shape, rng: rng.standard_normal(shape) * 3 ** rng.random(shape),
    "5 % change, either way": lambda shape, rng: _changed(shape, rng) * rng.choice([-1.0, 1.0], shape),
    "5 % change, one way": lambda shape, rng: _changed(shape, rng) - CHANGED,
} | {
    f"{100 * q:g} % are -1 or 1": lambda shape, rng, q=q: (
        (rng.random(shape) < q) * rng.choice([-1.0, 1.0], shape)
    )
    for q in (0.02, 0.1, 0.5)
}


@dataclass(frozen=True)
class GapWorld:
    """Differences of prompts about a mean, each seed's with a noise of its own (standard deviation `seeds`)."""

    kind: str  # of `DIFFERENCES`
    mean: float = 0.0
    seeds: float = 0.0

    def draw(self, n_prompts: int, columns: int, rng: np.random.Generator, *, n_seeds: int = 1) -> Floats:
        """Values of shape (n_prompts, n_seeds, columns)."""
        values = np.repeat(DIFFERENCES[self.kind]((n_prompts, 1, columns), rng), n_seeds, axis=1)
        if self.seeds:
            values = values + self.seeds * rng.standard_normal(values.shape)
        return values + self.mean


def draw_shared(share: float, n_prompts: int, n_seeds: int, columns: int, rng: np.random.Generator) -> Floats:
    """Differences of mean 0, shape (n_prompts, n_seeds, columns); prompts of a seed share `share` of the variance."""
    prompt = np.sqrt(0.3) * rng.standard_normal((n_prompts, 1, columns))
    seeds = np.sqrt(share) * rng.standard_normal((1, n_seeds, columns))
    return prompt + seeds + np.sqrt(0.7 - share) * rng.standard_normal((n_prompts, n_seeds, columns))


def draw_changes(
    share: float,
    n_prompts: int,
    n_words: int,
    columns: int,
    rng: np.random.Generator,
    *,
    lognormal: bool = False,
) -> Floats:
    """Distances of words from the reference, shape (n_words, n_prompts, columns); each changes prompts by itself."""
    shape = (n_words, n_prompts, columns)
    length = rng.lognormal(-0.125, 0.5, shape) if lognormal else 1.0  # of mean 1
    return (rng.random(shape) < share) * length + NOISE * rng.standard_normal(shape)


@dataclass(frozen=True)
class WordWorld:
    """Words as vectors: lengths of their parts, in units of the prompt's; similarity is the cosine.

    A prompt with a word is what the prompt gives, what the side means, the word's own, and a rest. A word's own part is
    the same at every prompt, so that every single gap is other than 0, whatever the words mean.
    """

    name: str
    meaning: float  # of the two sides, at right angles to each other and at one distance from the reference
    own: float  # of a word
    rest: float  # of a word at a prompt
    lean: float = 0.0  # part of the way that the reference stands nearer to the first side
    uneven: bool = False  # words differ much in how much of their own they have
    reference: float | None = (
        None  # own part of a reference word; None: as other words, a single one has none
    )
    second: float | None = None  # own part of the second side's words; None: as the first's
    register: float = 0.0  # a part that the second word of every group shares with those of the others
    leaves: float = 0.0  # share of the prompts at which a word of the second side has another prompt's part
    everyone: bool = False  # so have words of the first side and of the reference
    dimensions: int = 16


WORDS = (
    WordWorld("all words mean the same", 0.0, 0.4, 0.3),
    WordWorld("two sides, no lean", 0.6, 0.4, 0.3),
    WordWorld("two sides, uneven words", 0.6, 0.4, 0.3, uneven=True),
    WordWorld("words alike", 0.6, 0.0, 0.3),
)
LEANING = (WordWorld("lean 0.3", 0.6, 0.2, 0.3, lean=0.3), WordWorld("lean 0.6", 0.6, 0.2, 0.3, lean=0.6))
HOSTILE = (
    WordWorld("the reference has a part of its own", 0.6, 0.4, 0.3, reference=0.4),
    WordWorld("of twice the length", 0.6, 0.4, 0.3, reference=0.8),
    WordWorld("one side's words are odder", 0.6, 0.1, 0.3, reference=0.1, second=0.6),
    WordWorld("two registers", 0.6, 0.2, 0.3, reference=0.2, register=0.4),
    WordWorld("near-synonyms", 0.6, 0.02, 0.3, reference=0.02),
    WordWorld("near-synonyms, reference apart", 0.6, 0.02, 0.3, reference=0.2),
)


def _odd(
    name: str, own: float = 0.2, second: float | None = None, lean: float = 0.0, **more: float
) -> WordWorld:
    return WordWorld(name, 0.6, own, 0.3, lean, second=second, dimensions=48, **({"reference": 0.2} | more))


def _pictures(
    name: str, meaning: float, own: float, rest: float, leaves: float, lean: float = 0.0
) -> WordWorld:
    return WordWorld(name, meaning, own, rest, lean, leaves=leaves, everyone=True, dimensions=48)


# Words of one side that are odder than those of the other, or whose images leave the shared noise at some prompts.
ODD = (
    _odd("own parts .2 and .2"),
    *(_odd(f"own parts .2 and {second:.1f}".replace("0.", "."), second=second) for second in (0.4, 0.5)),
    _odd("own parts .1 and .6", 0.1, 0.6, reference=0.1),
    *(_odd(f"{100 * leaves:g} % leave the noise", leaves=leaves) for leaves in (0.15, 0.25)),
)
ODD_LEANING = (
    _odd("lean .4, own parts .2 and .2", lean=0.4),
    _odd("lean .4, .2 and .4", second=0.4, lean=0.4),
    _odd("lean .4, .4 and .2", 0.4, 0.2, lean=0.4),
)
# As of runs: without a lean nearly all images of a prompt are one, or each is an image of its own.
PICTURES = (
    *(
        _pictures(f"{100 * leaves:g} % of images differ", 0.0, 0.0, 0.01, leaves)
        for leaves in (0.02, 0.1, 0.3)
    ),
    _pictures("all images differ", 0.0, 0.0, 0.01, 1.0),
    _pictures("sides, 10 % differ", 0.6, 0.1, 0.1, 0.1),
    _pictures("sides, all differ", 0.6, 0.2, 0.1, 1.0),
)
PICTURES_LEANING = (
    *(_pictures(f"lean .2, {100 * leaves:g} % differ", 0.6, 0.05, 0.1, leaves, 0.2) for leaves in (0.1, 0.3)),
    _pictures("lean .4, all differ", 0.6, 0.05, 0.1, 1.0, 0.4),
)


@dataclass(frozen=True)
class DrawnWords:
    """Nearness of words in many columns of one world, float32.

    `sides`: of the reference words to the words of each group, (references, n_words, n_prompts, columns), the third
    group meaning what the reference means; `within`, `between`: of the words of a side to each other, and to the other
    side's.
    """

    sides: list[NDArray[np.float32]]
    within: list[NDArray[np.float32]]
    between: NDArray[np.float32]

    def tested(self) -> Floats:
        """Return the p-values against words, as a run has them."""
        several = all(len(of_side) > 1 for of_side in self.within)
        others = self.sides[2][0] if len(self.sides) > 2 and not several else None
        return word_test(*self.sides[:2], others, within=self.within if several else None).p_value


def draw_words(
    world: WordWorld,
    sizes: tuple[int, ...],
    n_prompts: int,
    columns: int,
    rng: np.random.Generator,
    *,
    references: int = 1,
) -> DrawnWords:
    """Return the nearness of the words of each group in columns drawn from a world.

    A single reference word has nothing of its own unless the world says so: it stands where its meaning stands.
    """
    dimensions = world.dimensions

    def normal(*shape: int) -> NDArray[np.float32]:
        return rng.standard_normal((*shape, dimensions), dtype=np.float32) / np.float32(np.sqrt(dimensions))

    prompt = normal(n_prompts, columns)
    sides = world.meaning * np.eye(2, dimensions, dtype=np.float32)
    centre = sides.mean(axis=0) + world.lean * (sides[0] - sides[1]) / 2
    register = world.register * normal(columns)

    def vectors(meaning: NDArray, words: int, length: float, leaves: float) -> NDArray[np.float32]:
        of_word = length * normal(words, 1, columns)
        if world.uneven:
            of_word *= rng.lognormal(0, 0.5, (words, 1, columns, 1)).astype(np.float32)
        if world.register and words > 1:
            of_word[1] += register
        start = prompt
        if leaves:
            gone = rng.random((words, n_prompts, columns, 1)) < leaves
            start = np.where(gone, normal(words, n_prompts, columns), prompt)
        drawn = start + meaning + of_word + world.rest * normal(words, n_prompts, columns)
        return drawn / np.linalg.norm(drawn, axis=3, keepdims=True)

    single = world.own if references > 1 else 0.0
    all_leave = world.leaves if world.everyone else 0.0
    reference = vectors(centre, references, single if world.reference is None else world.reference, all_leave)
    lengths = (world.own, world.own if world.second is None else world.second, world.own)
    groups = zip((*sides, centre), sizes, lengths, (all_leave, world.leaves, all_leave))
    drawn = [vectors(group, size, length, leaves) for group, size, length, leaves in groups if size]

    def nearness(one: NDArray[np.float32], two: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.stack([(of_word * two).sum(axis=3) for of_word in one])

    return DrawnWords(
        [nearness(reference, words) for words in drawn],
        [nearness(words, words) for words in drawn[:2]],
        nearness(*drawn[:2]),
    )


INDICATORS = ("neutral", "feminine", "masculine")


@dataclass(frozen=True)
class PresenceWorld:
    """Presence and detections of objects; the first three numbers are parts of the variance.

    Presence is where a normal variable of variance 1 falls below the frequency's quantile. A part is shared by the
    prompt, one by prompt and indicator (so that seeds of a prompt agree), one by a seed's indicators (shared noise).
    """

    name: str
    prompt: float = 0.0
    interaction: float = 0.0
    noise: float = 0.0
    frequency: float = 0.3
    repeats: float = 0.0  # mean number of further detections in an image that has the object

    def draw(
        self,
        n_objects: int,
        rng: np.random.Generator,
        *,
        n_prompts: int = 60,
        n_seeds: int = 2,
        shift: tuple[float, ...] = (1.0, 1.0, 1.0),
    ) -> ObjectTable:
        """A table of objects; indicator g has the frequency ``self.frequency * shift[g]``."""
        shape = (n_objects, n_prompts, n_seeds, len(shift))
        remainder = 1 - self.prompt - self.interaction - self.noise
        latent = np.sqrt(remainder) * rng.standard_normal(shape)
        for share, axes in ((self.prompt, (2, 3)), (self.interaction, (2,)), (self.noise, (3,))):
            if share:
                size = tuple(1 if axis in axes else length for axis, length in enumerate(shape))
                latent += np.sqrt(share) * rng.standard_normal(size)
        present = latent < special.ndtri(self.frequency * np.array(shift))
        detections = present * (1 + rng.poisson(self.repeats, shape)) if self.repeats else present
        presence, detected = present.sum(axis=2), np.asarray(detections).sum(axis=2)
        return table_of(
            presence.transpose(1, 2, 0), detected.transpose(1, 2, 0), INDICATORS[-len(shift) :], n_seeds
        )


PRESENCE = (
    PresenceWorld("independent images"),
    PresenceWorld("clustered prompts", prompt=0.4, interaction=0.2),
    PresenceWorld("repeated detections", prompt=0.4, interaction=0.2, repeats=3.0),
    PresenceWorld("rare objects", prompt=0.4, interaction=0.2, noise=0.2, frequency=0.01),
    PresenceWorld("shared noise", prompt=0.3, noise=0.6),
    PresenceWorld("named by the prompt", prompt=0.9, noise=0.08, repeats=0.3),
)
COVERED_PRESENCE = (
    PresenceWorld("independent images", frequency=0.2),
    PresenceWorld("clustered prompts", prompt=0.4, interaction=0.2, frequency=0.2),
    PresenceWorld("repeated detections", 0.4, 0.2, frequency=0.2, repeats=3.0),
    PresenceWorld("shared noise", prompt=0.3, noise=0.6, frequency=0.2),
    PresenceWorld("rare objects, some 6 images", 0.4, 0.2, frequency=0.012),
    PresenceWorld("rare objects, some 20 images", 0.4, 0.2, frequency=0.04),
)


def table_of(
    presence: NDArray, detections: NDArray, indicators: tuple[str, ...], n_seeds: int = 1
) -> ObjectTable:
    """Object table of counts of shape (n_prompts, n_indicators, n_objects)."""
    n_prompts, _, n_objects = presence.shape
    which, prompt = np.nonzero(detections.any(axis=1).T)
    cells = (counts[prompt, :, which].astype(np.int64) for counts in (presence, detections))
    seeds = np.full(n_prompts, n_seeds, np.int64)
    names = np.array([f"object {number}" for number in range(n_objects)], object)
    return ObjectTable(indicators, names, np.arange(n_prompts), seeds, prompt, which, *cells)
