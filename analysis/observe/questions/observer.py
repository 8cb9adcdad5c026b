"""Observers that put questions to stored images: one a reader, with parts of its own, ``attributes/<reader>``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any

from analysis.observe.features.observer import of_toyworld
from analysis.observe.observer import ImageObserver, StoredImage
from analysis.observe.questions.reader import Answer, Reader
from analysis.questions import ResolvedQuestion, questions
from probes.config.observation import BLIP2_WEIGHTS, Questions
from probes.config.schema import Config
from probes.prompts.diagnostic import is_diagnostic
from probes.runs import schemas as runs_schemas
from probes.runs.run import Run


class QuestionObserver(ImageObserver):
    """Stores what a `Reader` answers about each image; see :class:`analysis.observe.observer.ImageObserver`."""

    schema, batch_field = runs_schemas.ANSWERS, "observe.questions.batch"

    def __str__(self) -> str:
        return f"{len(self.questions)} questions, {self.model}"

    @cached_property
    def questions(self) -> tuple[ResolvedQuestion, ...]:
        """The questions."""
        return questions(self.config)

    def fields(self) -> dict[str, Any]:
        """Return every field that alters an answer: reader's identity, questions, readings, batch and device."""
        asked = {f"{self.name}.questions.{question.key}": _plain(question) for question in self.questions}
        return super().fields() | asked

    def read(self, images: Sequence[StoredImage]) -> Sequence[list[Answer]]:
        """The answers about each image."""
        return self.model.answers(images, self.questions)

    def rows(self, image: StoredImage, seen: list[Answer] | None) -> list[dict[str, Any]]:
        """One row per question: the answer and its reading, or why it was not asked."""
        answers = seen or [Answer(question.text, reason=image.fault) for question in self.questions]
        return [
            {"question": question.key, **asdict(answer)} for question, answer in zip(self.questions, answers)
        ]

    def record(self, run: Run) -> dict[str, Any]:
        """Return who answered, and the questions."""
        commit = getattr(self.model, "commit", "")
        return {
            self.name: {
                "reader": str(self.model),
                **({"commit": commit} if commit else {}),
                **self.model.identity(),
                "questions": {question.key: _plain(question) for question in self.questions},
                "versions": self.versions,
            }
        }


def _plain(question: ResolvedQuestion) -> dict[str, Any]:
    """A question as plain data."""
    readings = {name: list(words) for name, words in question.readings.items()}
    return {"text": question.text, "readings": readings, "sentences": dict(question.sentences)}


def _reader(name: str, config: Config) -> Reader:
    """A reader by its name, not loaded."""
    if name == "blip2":
        from analysis.observe.questions.blip2 import Blip2

        return Blip2(config.observe.questions)
    if name == "clip":
        from analysis.observe.questions.clip import ClipReader

        return ClipReader(config)
    if name == "toyworld-vqa":
        from analysis.observe.questions.toyworld_vqa import ToyworldVqa

        return ToyworldVqa()
    from analysis.observe.questions.toyworld_checker import ToyworldCheckerReader

    return ToyworldCheckerReader()


OF_TOYWORLD = ("toyworld-vqa", "toyworld-checker")


def question_observer(name: str, config: Config) -> tuple[QuestionObserver | None, str]:
    """The observer of a reader where a configuration asks for it; else none, and why (nothing: not asked for)."""
    settings = config.observe.questions
    if not is_questioned(name, config):
        return None, ""
    questions(config)  # what is wrong with them is said before anything is generated
    if name == "blip2" and settings.readers == "auto" and not _blip2_is_here(settings):
        return None, "no weights on this machine: name a folder or a hub id in `observe.questions.blip2`"
    return QuestionObserver(config, _reader(name, config), f"attributes/{name}", settings.batch), ""


def is_questioned(name: str, config: Config) -> bool:
    """Return whether a configuration puts its questions to a reader: by name, or as an audit's default."""
    readers = config.observe.questions.readers
    if isinstance(readers, list):
        return name in readers
    return is_diagnostic(config) and name in (OF_TOYWORLD if of_toyworld(config) else ("blip2",))


def _blip2_is_here(settings: Questions) -> bool:
    """Return whether BLIP-2's weights are named, or on this machine."""
    from analysis.observe.text_generation import located

    field = "observe.questions.blip2"
    return bool(settings.blip2) or located(BLIP2_WEIGHTS, field, settings.revision, fetch=False) is not None
