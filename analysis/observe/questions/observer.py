"""Observers that put questions to stored images: one a reader, with parts of its own, ``attributes/<reader>``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib import metadata
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from analysis.observe.features.observer import of_toyworld
from analysis.observe.observer import Needs, StoredImage
from analysis.observe.questions.reader import Answer, Reader
from probes.config.question_options import READERS
from probes.config.questions import ResolvedQuestion, questions
from probes.config.schema import Config
from probes.models.devices import pick_device
from probes.prompts.diagnostic import is_diagnostic
from probes.runs import schemas as runs_schemas
from probes.runs.parts import read_part
from probes.runs.store import Run


@dataclass
class QuestionObserver:
    """Stores what a reader answers about each image; see :class:`analysis.observe.observer.Observer`.

    Parameters
    ----------
    reader : Reader
    config : Config
    """

    reader: Reader
    config: Config

    whole_triplets = False

    def __str__(self) -> str:
        return f"{len(self.questions)} questions, {self.reader}"

    @property
    def name(self) -> str:
        """For messages and progress bars."""
        return self.kind

    @property
    def kind(self) -> str:
        """Folder of its parts."""
        return f"attributes/{self.reader.name}"

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        """One row per image and question."""
        return MappingProxyType({self.kind: runs_schemas.ANSWERS})

    @property
    def batch(self) -> int:
        """Images that the reader sees in one go."""
        return self.config.observe.questions.batch

    @property
    def resolved(self) -> dict[str, Any]:
        """Return no resolved settings: another machine may hold the weights in another place."""
        return {}

    @cached_property
    def questions(self) -> tuple[ResolvedQuestion, ...]:
        """The questions."""
        return questions(self.config)

    @property
    def device(self) -> Any:
        """The torch device that the reader works on."""
        settings = self.config.observe
        return pick_device(settings.device, "observe.device", prefer=self.config.generate.device)

    def needs(self) -> Needs:
        """Device, size, time and libraries of the reader."""
        names = ("triptych", *self.reader.libraries)
        return Needs(
            device=self.device.type,
            parameters=self.reader.parameters(),
            seconds=self.reader.seconds(len(self.questions)),
            versions={name: metadata.version(name) for name in names},
        )

    def fields(self) -> dict[str, Any]:
        """Return every field that alters an answer: reader's identity, questions, readings, batch and device."""
        return {
            **{f"{self.kind}.{name}": value for name, value in self.reader.identity().items()},
            **{f"{self.kind}.questions.{one.key}": _shown(one) for one in self.questions},
            "observe.questions.batch": self.batch,
            "observe.device": self.device.type,
        }

    def load(self) -> None:
        """Load the reader."""
        self.reader.load(self.device)

    def observe(self, images: Sequence[StoredImage]) -> dict[str, list[dict[str, Any]]]:
        """Return one row per image and question: the answer and its reading, or why it was not asked."""
        there = [index for index, image in enumerate(images) if image.pixels is not None]
        answers = self.reader.answers([images[index] for index in there], self.questions) if there else []
        given = dict(zip(there, answers))
        rows = [
            {**image.key, "question": question.key, **asdict(answer)}
            for index, image in enumerate(images)
            for question, answer in zip(self.questions, given.get(index) or self._unread(image))
        ]
        return {self.kind: rows}

    def _unread(self, image: StoredImage) -> list[Answer]:
        return [Answer(question.text, reason=image.fault) for question in self.questions]

    def record(self, run: Run) -> dict[str, Any]:
        """Return who answered, the questions, and how often an answer was undecided or missing."""
        commit = getattr(self.reader, "commit", "")
        return {
            self.kind: {
                "reader": str(self.reader),
                **({"commit": commit} if commit else {}),
                **self.reader.identity(),
                "questions": {one.key: _shown(one) for one in self.questions},
                "versions": dict(self.needs().versions),
                "counts": counts(run, self.kind),
            }
        }


def counts(run: Run, kind: str) -> dict[str, dict[str, int]]:
    """Return how often each question was answered with each reading, was ``undecided`` and was ``not asked``."""
    tallies: dict[str, Counter[str]] = {}
    for file in run.parts(kind):
        columns = read_part(file, ["question", "reading", "reason"]).to_pydict().values()
        for question, reading, reason in zip(*columns):
            tallies.setdefault(question, Counter())["not asked" if reason else reading or "undecided"] += 1
    return {question: dict(sorted(count.items())) for question, count in tallies.items()}


def _shown(question: ResolvedQuestion) -> dict[str, Any]:
    """A question as plain data."""
    plain = {
        "text": question.text,
        "readings": {name: list(words) for name, words in question.readings.items()},
    }
    return {**plain, "sentences": dict(question.sentences)}


def _blip2(config: Config) -> Reader:
    from analysis.observe.questions.blip2 import Blip2

    return Blip2(config.observe.questions)


def _clip(config: Config) -> Reader:
    from analysis.observe.questions.clip import ClipReader

    return ClipReader(config)


def _vqa(config: Config) -> Reader:
    from analysis.observe.questions.toyworld_vqa import ToyworldVqa

    return ToyworldVqa()


def _checker(config: Config) -> Reader:
    from analysis.observe.questions.toyworld_checker import ToyworldCheckerReader

    return ToyworldCheckerReader()


MAKERS: Mapping[str, Callable[[Config], Reader]] = dict(
    zip(READERS, (_blip2, _clip, _vqa, _checker), strict=True)
)
OF_TOYWORLD = ("toyworld-vqa", "toyworld-checker")


def question_observer(name: str, config: Config) -> tuple[QuestionObserver | None, str]:
    """The observer of a reader where a configuration asks for it; else none, and why.

    Returns
    -------
    observer, reason
        Without an observer and without a reason the reader was not asked for.

    Raises
    ------
    UserError
        A question is no good, or a reader is asked for by name and its weights cannot be had.
    """
    settings = config.observe.questions
    if not is_questioned(name, config):
        return None, ""
    questions(config)  # what is wrong with them is said before anything is drawn
    if name == "blip2" and settings.readers == "auto" and not _there(config):
        return None, "no weights on this machine: name a folder or a hub id in `observe.questions.blip2`"
    return QuestionObserver(MAKERS[name](config), config), ""


def is_questioned(name: str, config: Config) -> bool:
    """Return whether a configuration puts its questions to a reader: by name, or as an audit's default."""
    readers = config.observe.questions.readers
    if isinstance(readers, list):
        return name in readers
    return is_diagnostic(config) and name in (OF_TOYWORLD if of_toyworld(config) else ("blip2",))


def _there(config: Config) -> bool:
    """Return whether BLIP-2's weights are named, or on this machine."""
    from analysis.observe.questions.blip2 import Blip2
    from analysis.observe.text_generation import located
    from probes.config.question_options import BLIP2_WEIGHTS

    settings = config.observe.questions
    if settings.blip2 is not None:
        return True
    return located(BLIP2_WEIGHTS, Blip2.field, settings.revision, fetch=False) is not None
