"""Level of the tests of a gap where words make gaps without any lean, in worlds of vectors.

A prompt with a word is a vector: what the prompt gives, what the group of words means, what is the word's own, and a
rest. Similarity is the cosine. What is the word's own is the same at every prompt, so that every single gap is other
than 0, whatever the words mean: the geometric part. Gaps are corrected as those of a run are, for how near the words of
each side are to each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.stats.word_test import word_test
from lab.validate.statistics.simulation import COLUMNS, rejection_row

DIMENSIONS = 16
MANY = 48


@dataclass(frozen=True)
class WordWorld:
    """Lengths of the parts of a vector, in units of the prompt's."""

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
    dimensions: int = DIMENSIONS


WORD_WORLDS = (
    WordWorld("all words mean the same", 0.0, 0.4, 0.3),
    WordWorld("two sides, no lean", 0.6, 0.4, 0.3),
    WordWorld("two sides, uneven words", 0.6, 0.4, 0.3, uneven=True),
    WordWorld("words alike", 0.6, 0.0, 0.3),
)
# Of the default design: three words a side, three of the reference or fewer, one seed.
HOSTILE = (
    WordWorld("the reference has a part of its own", 0.6, 0.4, 0.3, reference=0.4),
    WordWorld("of twice the length", 0.6, 0.4, 0.3, reference=0.8),
    WordWorld("one side's words are odder", 0.6, 0.1, 0.3, reference=0.1, second=0.6),
    WordWorld("two registers", 0.6, 0.2, 0.3, reference=0.2, register=0.4),
    WordWorld("near-synonyms", 0.6, 0.02, 0.3, reference=0.02),
    WordWorld("near-synonyms, reference apart", 0.6, 0.02, 0.3, reference=0.2),
)
HOSTILE_SIZES = ((1, 1, 3), (2, 2, 1), (2, 2, 2), (3, 3, 1), (3, 3, 2), (3, 3, 3), (2, 4, 3), (4, 2, 3))
# Words of one side that are odder than those of the other, or whose images leave the shared noise at some prompts.
ODD = (
    WordWorld("own parts .2 and .2", 0.6, 0.2, 0.3, reference=0.2, dimensions=MANY),
    WordWorld("own parts .2 and .4", 0.6, 0.2, 0.3, reference=0.2, second=0.4, dimensions=MANY),
    WordWorld("own parts .2 and .5", 0.6, 0.2, 0.3, reference=0.2, second=0.5, dimensions=MANY),
    WordWorld("own parts .1 and .6", 0.6, 0.1, 0.3, reference=0.1, second=0.6, dimensions=MANY),
    WordWorld("15 % leave the noise", 0.6, 0.2, 0.3, reference=0.2, leaves=0.15, dimensions=MANY),
    WordWorld("25 % leave the noise", 0.6, 0.2, 0.3, reference=0.2, leaves=0.25, dimensions=MANY),
)
ODD_LEANING = (
    WordWorld("lean .4, own parts .2 and .2", 0.6, 0.2, 0.3, lean=0.4, reference=0.2, dimensions=MANY),
    WordWorld("lean .4, .2 and .4", 0.6, 0.2, 0.3, lean=0.4, reference=0.2, second=0.4, dimensions=MANY),
    WordWorld("lean .4, .4 and .2", 0.6, 0.4, 0.3, lean=0.4, reference=0.2, second=0.2, dimensions=MANY),
)
# As of runs: without a lean nearly all images of a prompt are one, or each is an image of its own.
PICTURES = (
    WordWorld("2 % of images differ", 0.0, 0.0, 0.01, leaves=0.02, everyone=True, dimensions=MANY),
    WordWorld("10 % of images differ", 0.0, 0.0, 0.01, leaves=0.1, everyone=True, dimensions=MANY),
    WordWorld("30 % of images differ", 0.0, 0.0, 0.01, leaves=0.3, everyone=True, dimensions=MANY),
    WordWorld("all images differ", 0.0, 0.0, 0.01, leaves=1.0, everyone=True, dimensions=MANY),
    WordWorld("sides, 10 % differ", 0.6, 0.1, 0.1, leaves=0.1, everyone=True, dimensions=MANY),
    WordWorld("sides, all differ", 0.6, 0.2, 0.1, leaves=1.0, everyone=True, dimensions=MANY),
)
PICTURES_LEANING = (
    WordWorld("lean .2, 10 % differ", 0.6, 0.05, 0.1, lean=0.2, leaves=0.1, everyone=True, dimensions=MANY),
    WordWorld("lean .2, 30 % differ", 0.6, 0.05, 0.1, lean=0.2, leaves=0.3, everyone=True, dimensions=MANY),
    WordWorld("lean .4, all differ", 0.6, 0.05, 0.1, lean=0.4, leaves=1.0, everyone=True, dimensions=MANY),
)
LEANING = (
    WordWorld("lean 0.3", 0.6, 0.2, 0.3, lean=0.3),
    WordWorld("lean 0.6", 0.6, 0.2, 0.3, lean=0.6),
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

    def tested(self) -> NDArray[np.float64]:
        """Return the p-values against words, as a run has them."""
        several = all(len(of_side) > 1 for of_side in self.within)
        others = self.sides[2][0] if len(self.sides) > 2 and not several else None
        within = self.within if several else None
        return word_test(*self.sides[:2], others, within=within).p_value


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
    groups = (*sides, centre)

    register = world.register * normal(columns)

    def vectors(
        meaning: NDArray, words: int, length: float = world.own, leaves: float = 0.0
    ) -> NDArray[np.float32]:
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
    own = single if world.reference is None else world.reference
    reference = vectors(centre, references, own, all_leave)
    lengths = (world.own, world.own if world.second is None else world.second, world.own)
    drawn = [
        vectors(group, size, length, leaves)
        for group, size, length, leaves in zip(groups, sizes, lengths, (all_leave, world.leaves, all_leave))
        if size
    ]

    def nearness(one: NDArray[np.float32], two: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.stack([(of_word * two).sum(axis=3) for of_word in one])

    return DrawnWords(
        [nearness(reference, words) for words in drawn],
        [nearness(words, words) for words in drawn[:2]],
        nearness(*drawn[:2]),
    )


def spread_rejections(
    *,
    spreads: tuple[tuple[float, float], ...] = ((1.0, 1.0), (0.25, 1.0), (0.0, 1.0)),
    sizes: tuple[tuple[int, int, int], ...] = ((2, 2, 1), (3, 3, 1), (3, 3, 3), (2, 4, 1), (4, 2, 1)),
    n_prompts: int = 24,
    simulations: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """Return how often a gap is significant against words at 5 %, where the sides' words have unequal variance.

    Nearness is a sum here, of what is a word's own, a reference word's own towards a side (standard deviation 0.5),
    the prompt's and a rest: no side lies farther off than the other, as one of longer vectors does.
    """
    rows = []
    for number, spread in enumerate(spreads):
        rng = np.random.default_rng([seed, 950 + number])
        for *words, references in sizes:
            lean = 0.5 if references > 1 else 0.0
            sides = [
                length * rng.standard_normal((1, k, 1, simulations))
                + lean * rng.standard_normal((references, 1, 1, simulations))
                + rng.standard_normal((1, 1, n_prompts, simulations))
                + 0.5 * rng.standard_normal((references, k, n_prompts, simulations))
                for length, k in zip(spread, words)
            ]
            test = f"{words[0]} against {words[1]}, {references} of the reference"
            world = f"spreads {spread[0]:g} and {spread[1]:g}"
            rows.append(rejection_row(world, test, True, word_test(*sides).p_value))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def word_rejections(
    worlds: tuple[WordWorld, ...] = HOSTILE,
    *,
    sizes: tuple[tuple[int, int, int], ...] = HOSTILE_SIZES,
    prompts: tuple[int, ...] = (24,),
    stream: int = 900,
    simulations: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """Return how often a gap is significant against words at 5 %, by words of both sides and of the reference."""
    rows = []
    for number, (world, n) in enumerate((world, n) for world in worlds for n in prompts):
        rng = np.random.default_rng([seed, stream + number])
        name = f"{world.name}, {n} prompts" if len(prompts) > 1 else world.name
        for first, second, references in sizes:
            others = 3 if first == second == 1 else 0  # stand in for words of the sides
            drawn = draw_words(world, (first, second, others), n, simulations, rng, references=references)
            test = f"{first} against {second}, {references} of the reference"
            rows.append(rejection_row(name, test, True, drawn.tested()))
    return pd.DataFrame(rows, columns=list(COLUMNS))
