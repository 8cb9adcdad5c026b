"""``observe.questions`` of ``triplets.yaml``: what is asked of an image, and who is asked. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from probes.fields.types import (
    CHARACTERS,
    KEY,
    Model,
    Positive,
    Section,
    Unique,
    Word,
    fail,
    one,
    option,
    shown,
    takes,
)

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
    takes(f"one of {', '.join(READERS)} (people answer in a file, see `triptych labels`)"),
]
Key = Annotated[str, Field(pattern=KEY)]


class Question(Section):
    """A question, and how an answer to it is read."""

    text: Annotated[
        Sentence | None,
        option(
            null="as Cho et al. 2023 ask it, for gender and the attributes of GEP",
            example="Is the hair long?",
        ),
    ] = None
    """The question."""
    readings: Annotated[
        dict[Word, Annotated[list[Word], Field(min_length=1)]],
        option(example={"long": ["long", "yes"], "short": ["short", "no"]}),
    ] = {}
    """What can be answered, each with the words that say so; an answer with words of none, or of several, is
    undecided. Without them: yes and no, and of gender female and male."""
    sentences: Annotated[
        dict[Word, Sentence],
        option(example={"long": "a person with long hair", "short": "a person with short hair"}),
    ] = {}
    """What CLIP holds an image against, one for each reading. Without them CLIP is asked the paper's questions
    alone."""

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
    """Questions to the images (DALL-Eval, Cho et al. 2023, sections 4.2.2 and 4.2.3), and who answers."""

    readers: Annotated[
        Annotated[Literal["auto"] | Unique[Reader], takes(f"auto or a list of {', '.join(READERS)}")],
        option(example=["blip2", "clip"]),
    ] = "auto"
    """Who is asked. `auto` asks in an audit of professions alone: toyworld-vqa and toyworld-checker on the
    bundled models, elsewhere blip2 where its weights are on this machine; an empty list asks nobody."""
    paper: bool = True
    """Whether the paper's questions are asked: gender, and each attribute of GEP. Turn it off to ask your own
    alone."""
    ask: Annotated[dict[Key, Question], option(example={"hair": {"text": "Is the hair long?"}})] = {}
    """Questions of your own by a key, or the paper's in other words. `tone` is no key; readings of `gender`
    hold female and male."""
    blip2: Annotated[
        Model | None, option(null=f"{BLIP2_WEIGHTS}, where it is on this machine", example=BLIP2_WEIGHTS)
    ] = None
    """BLIP-2's weights: a folder or a hub id."""
    revision: Annotated[
        Annotated[str, Field(min_length=1)] | None, option(null="the default branch", example="main")
    ] = None
    """Branch, tag or commit of the hub for BLIP-2."""
    prompt: Annotated[
        str,
        Field(max_length=CHARACTERS),
        AfterValidator(one(QUESTION, "question")),
        option(example="Q: {question} A:"),
    ] = BLIP2_PROMPT
    """The form in which BLIP-2 is asked."""
    beams: Annotated[int, Field(ge=1, le=100), option(unit="answers", example=1)] = 5
    """Answers that are searched at a time (beam search). Fewer are faster."""
    tokens: Annotated[int, Field(ge=1, le=1000), option(unit="tokens", example=10)] = 30
    """Longest answer."""
    batch: Annotated[Positive, option(unit="images", example=2)] = 8
    """Images that a reader sees at once. Lower it where memory runs out."""

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
