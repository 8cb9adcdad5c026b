"""``observe.questions`` of ``triplets.yaml``: what is asked of an image, and who is asked. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from probes.config.types import CHARACTERS, KEY, Model, Positive, Section, Unique, Word, fail, one, shown

READERS = ("blip2", "clip", "toyworld-vqa", "toyworld-checker")  # who can be asked; people answer in a file
QUESTION = "{question}"
GENDER, TONE = "gender", "tone"  # keys of what has an average by profession beside what is worn
# as transformers documents visual question answering by BLIP-2
BLIP2_PROMPT = "Question: {question} Answer:"
# BLIP-2 with FLAN-T5-XXL, which the authors of Cho et al. 2023 ask in the code that they published
BLIP2_WEIGHTS = "Salesforce/blip2-flan-t5-xxl"

Sentence = Annotated[str, Field(min_length=1, max_length=CHARACTERS)]
Reader = Annotated[
    Literal[*READERS],  # type: ignore[valid-type]
    Field(description=f"one of {', '.join(READERS)} (people answer in a file, see `triptych questions`)"),
]
Key = Annotated[str, Field(pattern=KEY)]


class Question(Section):
    """A question, and how an answer to it is read.

    ``text`` is the sentence; nothing (null): as Cho et al. 2023 ask it, for ``gender`` and the attributes of GEP.
    ``readings`` are what can be answered, each with the words that say so; an answer with words of none, or of several,
    is undecided. None: *yes* and *no*, and of ``gender`` *female* and *male*. ``sentences`` are what CLIP holds an
    image against, one for each reading; without them CLIP is not asked, but for the questions of the paper.
    """

    text: Sentence | None = None
    readings: dict[Word, Annotated[list[Word], Field(min_length=1)]] = {}
    sentences: dict[Word, Sentence] = {}

    @model_validator(mode="after")
    def _fits(self) -> Question:
        if len(self.readings) == 1:
            raise fail(
                f"expected at least two readings, got {shown(self.readings)}: name another", at=("readings",)
            )
        readings: dict[str, str] = {}  # by word
        for reading, words in self.readings.items():
            for word in words:
                other = readings.setdefault(word.casefold(), reading)
                if other != reading:
                    raise fail(
                        f"expected words of one reading each, got {shown(word)} for {shown(other)} and"
                        f" {shown(reading)}: take it out of one",
                        at=("readings",),
                    )
        if self.readings and self.sentences and {*self.readings} != {*self.sentences}:
            raise fail(
                f"expected a sentence for each of {shown([*self.readings])}, got {shown([*self.sentences])}:"
                " write them",
                at=("sentences",),
            )
        return self


class Questions(Section):
    """Questions to the images (DALL-Eval, Cho et al. 2023, sections 4.2.2 and 4.2.3), and who answers.

    ``readers``: ``auto`` asks in an audit of professions alone (`probes.prompts.diagnostic`), on the bundled models
    ``toyworld-vqa`` and ``toyworld-checker``, elsewhere ``blip2`` where its weights are on this machine. ``paper`` asks
    the paper's questions: *the person looks like a male or a female?* as ``gender``, and for each attribute of GEP *Is
    the person wearing a suit?*; ``ask`` are others, by a key, or the same in other words; ``tone`` is no key of one,
    and readings of ``gender`` hold ``female`` and ``male``.

    ``blip2`` names BLIP-2's weights (a folder or a hub id) and ``revision`` a branch, tag or commit of the hub;
    ``prompt`` is the form in which it is asked, ``beams`` how many answers are searched at a time and ``tokens`` how
    long an answer may be. CLIP is ``clip`` of ``observe.feature_weights``. A reader sees ``batch`` images at a time.
    """

    readers: Annotated[
        Literal["auto"] | Unique[Reader], Field(description=f"auto or a list of {', '.join(READERS)}")
    ] = "auto"
    paper: bool = True
    ask: dict[Key, Question] = {}
    blip2: Model | None = None
    revision: Annotated[str, Field(min_length=1)] | None = None
    prompt: Annotated[str, Field(max_length=CHARACTERS), AfterValidator(one(QUESTION, "question"))] = (
        BLIP2_PROMPT
    )
    beams: Annotated[int, Field(ge=1, le=100)] = 5
    tokens: Annotated[int, Field(ge=1, le=1000)] = 30
    batch: Positive = 8

    @model_validator(mode="after")
    def _consistent(self) -> Questions:
        if TONE in self.ask:
            raise fail(
                "expected another key, since tables have tones of skin under this one: rename it",
                at=("ask", TONE),
            )
        genders = self.ask[GENDER].readings if GENDER in self.ask else {}
        if genders and not {"female", "male"} <= {*genders}:
            raise fail(
                f"expected female and male among the readings of gender, got {shown([*genders])}: name them so, or take"
                " another key for the question",
                at=("ask", GENDER, "readings"),
            )
        return self
