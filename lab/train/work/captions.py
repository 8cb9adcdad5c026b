"""Random captions with a profession, in the form of DALL-Eval's prompts (Cho et al. 2023, §4.2.1)."""

import re
from dataclasses import dataclass

import numpy as np

from lab.train.base.captions import article, random_caption
from probes.toyworld.world import GROUPS, World

# A lean is planted beside neutral words alone, so they come up more often; half of the captions name nothing more, as
# the prompts of an audit do.
GROUP_SHARES = (0.6, 0.2, 0.2)
BARE = 0.5


@dataclass(frozen=True)
class WorkCaption:
    """A caption in its pieces: ``a photo of`` or nothing, indicator word, profession, and the rest from a blank on."""

    opening: str
    word: str
    profession: str
    rest: str = ""

    @property
    def text(self) -> str:
        """The caption.

        >>> WorkCaption("a photo of ", "adult", "author", " in a hat").text
        'a photo of an adult who works as an author in a hat'
        """
        return f"{self.opening}{works_as(self.word, self.profession)}{self.rest}"

    def without(self, word: str) -> str:
        """The caption without the profession, of another indicator word.

        >>> WorkCaption("", "adult", "author", " in a hat").without("man")
        'a man in a hat'
        """
        return f"{self.opening}{article(word)} {word}{self.rest}"


def works_as(word: str, profession: str) -> str:
    """The bare prompt of an indicator word and a profession.

    >>> works_as("person", "author")
    'a person who works as an author'
    """
    return f"{article(word)} {word} who works as {article(profession)} {profession}"


def random_work_caption(world: World, rng: np.random.Generator) -> WorkCaption:
    """One caption with a profession; professions, the words of a group and what it names besides are drawn evenly."""
    group = GROUPS[int(rng.choice(len(GROUPS), p=GROUP_SHARES))]
    words, professions = world.words(group), list(world.professions)
    word, profession = (names[int(rng.integers(len(names)))] for names in (words, professions))
    if rng.random() < BARE:
        return WorkCaption("", word, profession)
    while True:
        caption, named = random_caption(world, rng)
        if not named.plural:
            opening, rest = re.fullmatch(r"(a photo of )?an? [a-z]+(.*)", caption).groups("")
            return WorkCaption(opening, word, profession, rest)
