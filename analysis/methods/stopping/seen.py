"""What a question may ask of single images: an object in them, an attribute of an audit, the answer of a reader.

A new kind is a class of `ImageQuestion`, its row in `KINDS`, and what ``stop.of`` says of it.
"""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import pandas as pd

from analysis.methods.stopping.answers import answer_asked, answer_values, require_answered
from analysis.methods.stopping.attributes import attribute_asked, attribute_values
from analysis.observe.early import required
from analysis.observe.objects.observer import ObjectObserver
from analysis.study import comparison
from analysis.tables.objects.objects import observed_images
from probes.config.schema import Config
from probes.config.stop_options import StopOf
from probes.errors import UserError
from probes.prompts.grammar.nouns import lemma
from probes.runs.selection import OBJECTS as OBJECT_KINDS
from probes.runs.store import Run

OBJECT, ATTRIBUTE, ANSWER = "object", "attribute", "question"  # as in `stop.of`
OBJECTS = "objects"  # the observer


@dataclass(frozen=True)
class ImageWording:
    """A question about images in words, which `analysis.methods.stopping.wording` puts together.

    Attributes
    ----------
    subject, more : str
        *“skirt”*, *detected in more images of*: to be followed by the side.
    averages, counted : str
        *shares of images of*, to be followed by both sides; then *in which “skirt” is detected*, or nothing.
    gap : str
        What the gap is: *difference of shares*.
    symbol : str
        What is averaged, for an axis.
    values : str
        Of which it is known that they lie between 0 and 1.
    caveat : str
        What they are.
    """

    subject: str
    more: str
    averages: str
    counted: str
    symbol: str
    caveat: str
    gap: str = "difference of shares"
    values: str = "Shares"


@dataclass(frozen=True)
class ImageQuestion(ABC):
    """What of single images a question is about.

    Attributes
    ----------
    name : str
        Of the object, the attribute or the question.
    observer : str
        Who looks, as in `analysis.observe.registry.OBSERVERS`.
    reading : str
        The answer that is counted, of a question.
    """

    name: str
    observer: str
    reading: str = ""

    embeds_sentences: ClassVar[bool] = False  # whether those of an audit have to be embedded, too

    @property
    @abstractmethod
    def wording(self) -> ImageWording:
        """How it is said."""

    @property
    def stored(self) -> tuple[str, ...]:
        """The kinds of parts that the observer stores."""
        return (self.observer,)

    @abstractmethod
    def values(self, run: Run) -> pd.DataFrame:
        """Return ``triplet``, ``seed``, ``indicator`` and ``value``, 0 to 1, of each image that was observed."""

    def require(self, run: Run) -> None:
        """Refuse, once a part is there, what turns out not to be observed; by default nothing."""
        return


class ObjectQuestion(ImageQuestion):
    """An object that a detector looks for."""

    @property
    def wording(self) -> ImageWording:
        """How it is said."""
        return ImageWording(
            f"“{self.name}”",
            "detected in more images of",
            "shares of images of",
            f"in which “{self.name}” is detected",
            f"share with “{self.name}”",
            "They count what was detected: where a detector misses more of one side, they differ too.",
        )

    @property
    def stored(self) -> tuple[str, ...]:
        """The kinds of parts that the observer stores."""
        return OBJECT_KINDS

    def values(self, run: Run) -> pd.DataFrame:
        """Return whether it was detected, of each image in which objects were looked for."""
        return object_values(run, self.name)


class AttributeQuestion(ImageQuestion):
    """An attribute of an audit by contexts."""

    embeds_sentences = True

    @property
    def wording(self) -> ImageWording:
        """How it is said."""
        return ImageWording(
            f"“{self.name}”",
            "more probable (CLS) in images of",
            f"mean probabilities of “{self.name}” (CLS) in images of",
            "",
            f"probability of “{self.name}”",
            "They are what classifiers (CLS) say that were trained on sentences embedded by CLIP, and on no image:"
            " where these err more of one side, they differ too.",
            "difference of probabilities",
            "Probabilities",
        )

    @property
    def stored(self) -> tuple[str, ...]:
        """The kinds of parts that the observer stores."""
        return (f"features/{self.observer}",)

    def values(self, run: Run) -> pd.DataFrame:
        """Return its probability, of each image that was embedded."""
        return attribute_values(run, self.name, self.observer)


class AnswerQuestion(ImageQuestion):
    """A question that a reader is asked about the images."""

    @property
    def wording(self) -> ImageWording:
        """How it is said."""
        reader = self.observer.partition("/")[2]
        return ImageWording(
            f"“{self.reading}”",
            f"the answer to “{self.name}” for more images of",
            "shares of images of",
            f"for which “{self.reading}” is the answer to “{self.name}”",
            f"share answered “{self.reading}”",
            f"They count answers of {reader}: where it errs more of one side, they differ too.",
        )

    def values(self, run: Run) -> pd.DataFrame:
        """Return whether it was answered so, of each image about which the reader was asked."""
        return answer_values(run, self.name, self.reading, self.observer)

    def require(self, run: Run) -> None:
        """Refuse a question that the reader was asked about no image."""
        require_answered(run, self.name, self.observer)


KINDS: Mapping[str, type[ImageQuestion]] = MappingProxyType(
    {OBJECT: ObjectQuestion, ATTRIBUTE: AttributeQuestion, ANSWER: AnswerQuestion}
)


def seen_of(config: Config, of: StopOf) -> tuple[str, str, str, str]:
    """Return what ``stop.of`` asks about: the kind, the name, who observes it, and the answer that is counted.

    Raises
    ------
    UserError
        It is not known of every image.
    """
    if of.object is not None:
        return OBJECT, object_asked(config, of.object), OBJECTS, ""
    if of.attribute is not None:
        return ATTRIBUTE, of.attribute, attribute_asked(config, of.attribute), ""
    assert of.question is not None
    answer, kind = answer_asked(config, of)
    return ANSWER, of.question, kind, answer


def object_asked(config: Config, name: str) -> str:
    """Return an object's name as tables have it, once it is known to be looked for in every image.

    Raises
    ------
    UserError
        It is not, it is a word for the persons of the prompts, or nobody looks for objects.
    """
    observer = required(config, OBJECTS)
    assert isinstance(observer, ObjectObserver)
    asked, chosen = lemma(name, backend=config.measure.nouns), comparison(config)
    if asked in chosen.individuals:
        raise UserError(
            f"stop.of.object: expected a thing, got {name!r:.60}, a word for persons, which tests of objects leave out:"
            " name another"
        )
    known = list(dict.fromkeys(lemma(tag, backend=config.measure.nouns) for tag in observer.plan.everywhere))
    if asked not in known:
        raise UserError(
            f"stop.of.object: expected an object that is looked for in every image, {_got(name, known)}"
        )
    return asked


def _got(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    if not known:
        return f"got {name!r:.60}, and no list of any: name observe.vocabulary"
    remedy = f"did you mean {close[0]}?" if close else "add it to observe.vocabulary, or name one of these"
    return f"such as {', '.join(known[:3])}, got {name!r:.60}: {remedy}"


def object_values(run: Run, name: str) -> pd.DataFrame:
    """Return whether an object was detected, 1 or 0, of each image in which objects were looked for.

    Returns
    -------
    DataFrame
        ``triplet``, ``seed``, ``indicator`` and ``value``.
    """
    images, found = observed_images(run), run.objects(["sample_id", "label"])
    backend = run.config.measure.nouns
    labels = [label for label in found["label"].unique() if lemma(label, backend=backend) == name]
    there = set(found.loc[found["label"].isin(labels), "sample_id"])
    value = images["sample_id"].isin(there).astype(float)
    return images[["triplet", "seed", "indicator"]].assign(value=value)
