"""What observes the images, in ``triplets.yaml``: objects, features, skin tones, questions and captions."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from probes.fields.types import (
    CHARACTERS,
    KEY,
    AutoOrBool,
    Device,
    Model,
    Positive,
    Section,
    Share,
    Unique,
    Word,
    expects,
    fail,
    option,
    require_placeholder_once,
    shown,
)

READERS = ("blip2", "clip", "toyworld-vqa", "toyworld-checker")  # who can be asked; people answer in a file
QUESTION = "{question}"
GENDER, TONE = "gender", "tone"  # keys of what has an average by profession beside what is worn
# as transformers documents visual question answering by BLIP-2
BLIP2_PROMPT = "Question: {question} Answer:"
# BLIP-2 with FLAN-T5-XXL, which the authors of Cho et al. 2023 ask in the code that they published
BLIP2_WEIGHTS = "Salesforce/blip2-flan-t5-xxl"

Key = Annotated[str, Field(pattern=KEY)]
Sentence = Annotated[str, Field(min_length=1, max_length=CHARACTERS)]
Reader = Annotated[
    Literal[*READERS],  # type: ignore[valid-type]
    expects(f"one of {', '.join(READERS)} (people answer in a file, see `triptych labels`)"),
]


class Question(Section):
    """A question, and how an answer to it is read."""

    text: Sentence | None = option(
        null="as Cho et al. 2023 ask it, for gender and the attributes of GEP", example="Is the hair long?"
    )
    """The question."""
    readings: dict[Word, Annotated[list[Word], Field(min_length=1)]] = option(
        {}, example={"long": ["long", "yes"], "short": ["short", "no"]}
    )
    """Answers, each with the words that say so; other words are undecided. By default yes and no, of gender
    female and male."""
    sentences: dict[Word, Sentence] = option(
        {}, example={"long": "a person with long hair", "short": "a person with short hair"}
    )
    """What CLIP compares an image with, one for each reading. Without them CLIP is asked the paper's
    questions alone."""

    @model_validator(mode="after")
    def _check_readings(self) -> Question:
        """Raise an error for one reading (answer class) alone, a word in two readings, or sentences for other ones."""
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
        Literal["auto"] | Unique[Reader], expects(f"auto or a list of {', '.join(READERS)}")
    ] = option("auto", example=["blip2", "clip"])
    """Who is asked. `auto`, in an audit of professions: toyworld's two on the bundled models, elsewhere blip2
    where its weights are on this machine."""
    paper: bool = True
    """Whether the paper's questions are asked: gender, and each attribute of GEP."""
    ask: dict[Key, Question] = option({}, example={"hair": {"text": "Is the hair long?"}})
    """Questions of your own by a key, or the paper's in other words. `tone` is no key."""
    blip2: Model | None = option(null=f"{BLIP2_WEIGHTS}, where it is on this machine", example=BLIP2_WEIGHTS)
    """Weights of BLIP-2: a folder or a hub id."""
    revision: str | None = option(min_length=1, null="the default branch", example="main")
    """Branch, tag or commit of the hub for BLIP-2."""
    prompt: Annotated[str, AfterValidator(partial(require_placeholder_once, QUESTION, "question"))] = option(
        BLIP2_PROMPT, max_length=CHARACTERS, example="Q: {question} A:"
    )
    """How BLIP-2 is asked."""
    beams: int = option(5, ge=1, le=100, unit="answers", example=1)
    """Answers that are searched at a time (beam search)."""
    tokens: int = option(30, ge=1, le=1000, unit="tokens", example=10)
    """Longest answer."""
    batch: Positive = option(8, unit="images", example=2)
    """Images that a reader sees at once."""

    @model_validator(mode="after")
    def _check_keys(self) -> Questions:
        """Raise an error if a question's key is ``tone``, or the possible answers on gender lack female or male."""
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


LIGHTS = ("A", "B", "C", "D50", "D55", "D65", "D75", "E", "F2", "F11")
_COLOUR = re.compile(r"#(?!00)[0-9a-fA-F]{2}(?!00)[0-9a-fA-F]{2}(?!00)[0-9a-fA-F]{2}")


class SkinTone(Section):
    """Options for reading skin tones from images (DALL-Eval, Cho et al. 2023, section 4.2.3).

    Three readings are stored; ``dalleval.tone`` says which the tables show first.
    """

    look: AutoOrBool = option("auto", example=True)
    """Whether skin tones are read. `auto`: in an audit of professions, where the region can be had."""
    region: Literal["auto", "toyworld", "face-alignment", "image"] = "auto"
    """Which pixels are skin: toyworld's figures by their palette, the cheeks of the largest face
    (`face-alignment`, pip install 'triptych[faces]'), or the whole `image`. `auto`: toyworld on its models,
    else face-alignment."""
    landmarks: Model = option("2DFAN4-11f355bf06.pth.tar", example="weights/2DFAN4-11f355bf06.pth.tar")
    """Checkpoint of face-alignment that finds landmarks (FAN)."""
    detector: Model = option("s3fd-619a316812.pth", example="weights/s3fd-619a316812.pth")
    """Checkpoint of face-alignment that finds faces (S3FD)."""
    illumination: Literal["none", "grey-world", "shades-of-grey", "white-patch", "given", "trust"] = "none"
    """How the colour of the light is corrected: not at all, by an estimate from the image, by the light that
    `illuminant` names (`given`), or by TRUST's albedo (`trust`). Coloured light moves tones: compare two
    settings."""
    illuminant: str | None = option(null="none", example="#ffd2a0")
    """The light, with `illumination: given`: a CIE illuminant such as D50, or the colour of a white
    surface."""
    trust: Model | None = option(null="none", example="weights/trust")
    """Folder of TRUST's published files, with `illumination: trust`."""
    adaptation: Literal["bradford", "channels"] = "bradford"
    """What is scaled to correct the light: cone responses, or red, green and blue (`channels`)."""
    mean: Literal["lab", "linear"] = "lab"
    """Whether the region's mean is taken of L*a*b* or of linear light."""

    @model_validator(mode="after")
    def _check_light(self) -> SkinTone:
        """Raise an error if `illuminant`, `trust` or `region` does not fit `illumination`, or the light is unknown."""
        for name, kind in (("illuminant", "given"), ("trust", "trust")):
            value = getattr(self, name)
            if (value is not None) != (self.illumination == kind):
                wanted = "a value" if value is None else "nothing"
                raise fail(
                    f"expected {wanted} with illumination {self.illumination}, got {shown(value)}:"
                    f" name it where `illumination: {kind}` stands, and only there",
                    at=(name,),
                )
        light = self.illuminant
        if light is not None and light not in LIGHTS and not _COLOUR.fullmatch(light):
            raise fail(
                f"expected {', '.join(LIGHTS)} or a colour with some red, green and blue, as #ffd2a0, got"
                f" {shown(light)}: choose one",
                at=("illuminant",),
            )
        if self.illumination == "trust" and self.region in ("toyworld", "image"):
            raise fail(
                f"expected face-alignment with illumination trust, got {self.region}: TRUST takes a face by its"
                " landmarks",
                at=("region",),
            )
        return self


CHECKER = "toyworld-checker"  # as `captions.model`: no captioning network


class Captions(Section):
    """Captions of the images (DALL-Eval, Cho et al. 2023, appendix D.1), kept verbatim."""

    model: Model | None = option(
        null="none, and nothing is captioned", example="Salesforce/blip-image-captioning-base"
    )
    """Network that captions the images: BLIP or BLIP-2 (a folder or hub id), or `toyworld-checker`."""
    prompt: str = option("", max_length=CHARACTERS, example="a photo of")
    """Words from which a caption goes on."""
    beams: int = option(3, ge=1, le=100, unit="captions", example=1)
    """Captions that are searched at a time (beam search)."""
    tokens: int = option(30, ge=1, le=1000, unit="tokens", example=50)
    """Longest caption."""
    batch: Positive = option(8, unit="images", example=2)
    """Images that the network sees at once."""


class Observe(Section):
    """What observes the images: a detector for boxes, a segmenter for masks, tags, features, questions, captions.

    ``toyworld`` names the small networks that come with the package; other names are files, folders or hub ids.
    """

    objects: bool = option(True, alters="measure")
    """Whether objects are searched for in the images."""
    engine: Literal["auto", "toyworld-checker", "toyworld-scenes", "groundingdino", "detr"] = "auto"
    """What finds objects. `groundingdino`: Grounding DINO with SAM; `detr`: a `detector` alone, with its own
    classes; `toyworld-checker` and `toyworld-scenes`: images of the bundled models and of `toyworld-skills`
    prompts, exactly. `auto` goes by the checkpoints named."""
    detector: Model | None = option(
        null="toyworld on the bundled models; elsewhere no objects are searched for",
        example="groundingdino_swint_ogc.pth",
    )
    """Weights that find boxes: a checkpoint of Grounding DINO, a folder or hub id, or `toyworld`."""
    segmenter: Model | None = option(
        null="toyworld on the bundled models; elsewhere none", example="sam_vit_h_4b8939.pth"
    )
    """Weights that turn boxes into masks (SAM): a checkpoint, a folder or hub id, or `toyworld`."""
    text_encoder: Model = option("bert-base-uncased", example="weights/bert-base-uncased")
    """BERT by which original checkpoints of Grounding DINO read tags."""
    tags: list[Literal["prompt", "vocabulary", "ram"]] | None = option(
        min_length=1,
        null="what RAM gives where it is named, else the vocabulary, and the prompts' nouns",
        example=["prompt", "vocabulary"],
    )
    """What is looked for: nouns of a triplet's prompts (`prompt`), a `vocabulary`, or what `ram` gives an
    image."""
    vocabulary: str | None = option(null="everyday; toyworld on the bundled models", example="tags.txt")
    """A file with one tag per line, or `everyday` (nouns of the package) or `toyworld`."""
    ram: Model | None = option(null="none", example="ram_swin_large_14m.pth")
    """RAM's checkpoint, which gives each image its own tags, as in Wu et al. 2025."""
    ram_tags: str | None = option(
        null="ram_tag_list.txt beside the checkpoint", example="weights/ram_tag_list.txt"
    )
    """RAM's list of tags."""
    box_threshold: Share = option(0.25, unit="score", example=0.35)
    """Least score of a box. Wu et al. 2025 state none."""
    text_threshold: Share = option(0.2, unit="score", example=0.25)
    """Least score of a tag for a box."""
    nms_iou: Share | None = option(
        unit="intersection over union", null="0.5; 0.8 for toyworld's own detector", example=0.5
    )
    """Overlap above which the weaker of two boxes is dropped (non-maximum suppression)."""
    batch: Positive = option(4, unit="images", example=1)
    """Images that the detector sees at once."""
    features: Annotated[Literal["auto"] | list[str], expects("`auto` or a list of names")] = option(
        "auto", example=["clip", "dino"], alters="measure"
    )
    """Vectors by which images are compared. `auto`: those of Table 5 of Wu et al. 2025 whose weights are
    there."""
    # parts of features carry checksum and batch themselves, each feature apart, so that one more can be added
    feature_weights: dict[str, Model] = option(
        {}, example={"clip": "timm/vit_base_patch32_clip_224.openai"}, alters="nothing"
    )
    """Weights of each feature: a file, a folder, a hub id, or `toyworld` (docs/reference/features.md)."""
    feature_batch: Positive = option(32, unit="images", example=8, alters="nothing")
    """Images whose features are computed at once."""
    # parts of tones carry how they were read themselves
    skin_tone: SkinTone = option(SkinTone(), example={"look": True}, alters="measure")
    """How skin tones are read from the images."""
    # parts of answers carry question, reading and weights themselves, each reader apart
    questions: Questions = option(Questions(), example={"readers": ["clip"]}, alters="measure")
    """What is asked of each image, and which networks answer."""
    # parts of captions carry who wrote them themselves
    captions: Captions = option(
        Captions(), example={"model": "Salesforce/blip-image-captioning-base"}, alters="measure"
    )
    """Network that captions the images."""
    device: Device = option("auto", example="cuda")
    """Where these networks run: auto, cpu, cuda, cuda:1 or mps. `auto`: where the images were generated."""
