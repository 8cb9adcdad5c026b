"""Ways to ask about what toyworld shows: those that the network is trained with, and some that it never sees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.observe.questions.toyworld_network import ANSWERS
from analysis.questions import GENDER_QUESTION, paper_questions
from lab.train.base.captions import article
from probes.toyworld.checker import THINGS
from probes.toyworld.world import load_world

# the paper's question and those that its authors tried (Cho et al. 2023, footnote 14), and more
GENDER = (
    GENDER_QUESTION,
    "is this a photo of a man or woman?",
    "is the person male or female?",
    "does the person look male or female?",
    "is the figure a woman or a man?",
)
WORN = (
    "Is the person wearing {a}?",
    "Is the figure wearing {a}?",
    "Does the person wear {a}?",
    "Is there a person {phrase}?",
    "Do you see a person {phrase}?",
)
OBJECT = ("Is there {a} in the picture?", "Do you see {a}?", "Is there a person {phrase}?")
PLACE = ("Is the person {phrase}?", "Is this picture taken {phrase}?")
# never seen in training
UNSEEN_GENDER = "is the person a female or a male?"
UNSEEN_WORN = "Do you see {a} on the person?"
# Odds of the likelier component below which it is not predicted: the answer is *unclear*
LEAST_ODDS = 1.5
_QUESTION_MIX = (0.25, 0.50, 0.17, 0.08)  # chances of gender, what is worn, objects, places


@dataclass(frozen=True)
class QuestionLesson:
    """A question and what is to be answered: a distribution over `ANSWERS`."""

    text: str
    target: NDArray[np.float32]


class Phrasings:
    """Questions about pictures, drawn at random."""

    def __init__(self) -> None:
        world, paper = load_world(), paper_questions()
        self.worn = [index for index, thing in enumerate(THINGS) if thing in world.attributes]
        self.objects = [index for index, thing in enumerate(THINGS) if thing in world.objects]
        self.places = [index for index, thing in enumerate(THINGS) if thing in world.places]
        self.phrases = {thing: [one["phrase"]] for thing, one in world.attributes.items()}
        self.phrases |= {thing: one["phrases"] for thing, one in world.objects.items()} | world.places
        prefix = "Is the person wearing "
        self.names = {thing: paper[thing].text.removeprefix(prefix).rstrip("?") for thing in world.attributes}
        self.names |= {thing: f"{article(thing)} {thing}" for thing in world.objects}

    def worded(self, form: str, thing: str, rng: np.random.Generator) -> str:
        """A form with a thing in its place."""
        ways = self.phrases[thing]
        return form.format(a=self.names.get(thing, thing), phrase=ways[rng.integers(len(ways))])

    def draw(self, seen: NDArray[np.bool_], verdict: float, rng: np.random.Generator) -> QuestionLesson:
        """A question about a picture; of things, those that are there as often as those that are not."""
        kind = rng.choice(4, p=_QUESTION_MIX)
        if kind == 0:
            return QuestionLesson(GENDER[rng.integers(len(GENDER))], gender_target(verdict))
        things, forms = ((self.worn, WORN), (self.objects, OBJECT), (self.places, PLACE))[kind - 1]
        there = [index for index in things if seen[index]]
        absent = [index for index in things if not seen[index]]
        wanted = there if there and rng.random() < 0.5 else absent
        index = wanted[rng.integers(len(wanted))]
        text = self.worded(forms[rng.integers(len(forms))], THINGS[index], rng)
        return QuestionLesson(text, one_hot("yes" if seen[index] else "no"))


def gender_target(verdict: float) -> NDArray[np.float32]:
    """The posterior of the components, or *unclear* where there is no figure or hardly any evidence.

    Examples
    --------
    >>> round(float(gender_target(2.0)[ANSWERS.index("male")]), 2)
    0.88
    >>> [ANSWERS[gender_target(value).argmax()] for value in (0.1, float("nan"), -3.0)]
    ['unclear', 'unclear', 'female']
    """
    if np.isnan(verdict) or abs(verdict) < np.log(LEAST_ODDS):
        return one_hot("unclear")
    male = 1 / (1 + np.exp(-verdict))
    return (male * one_hot("male") + (1 - male) * one_hot("female")).astype(np.float32)


def one_hot(answer: str) -> NDArray[np.float32]:
    """All on one answer."""
    return np.array([one == answer for one in ANSWERS], np.float32)
