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
    """What can be answered, each with the words that say so; an answer with words of none, or of several, is
    undecided. Without them: yes and no, and of gender female and male."""
    sentences: dict[Word, Sentence] = option(
        {}, example={"long": "a person with long hair", "short": "a person with short hair"}
    )
    """What CLIP holds an image against, one for each reading. Without them CLIP is asked the paper's questions
    alone."""

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
    """Who is asked. `auto` asks in an audit of professions alone: toyworld-vqa and toyworld-checker on the
    bundled models, elsewhere blip2 where its weights are on this machine; an empty list asks nobody."""
    paper: bool = True
    """Whether the paper's questions are asked: gender, and each attribute of GEP. Turn it off to ask your own
    alone."""
    ask: dict[Key, Question] = option({}, example={"hair": {"text": "Is the hair long?"}})
    """Questions of your own by a key, or the paper's in other words. `tone` is no key; readings of `gender`
    hold female and male."""
    blip2: Model | None = option(null=f"{BLIP2_WEIGHTS}, where it is on this machine", example=BLIP2_WEIGHTS)
    """BLIP-2's weights: a folder or a hub id."""
    revision: str | None = option(min_length=1, null="the default branch", example="main")
    """Branch, tag or commit of the hub for BLIP-2."""
    prompt: Annotated[str, AfterValidator(partial(require_placeholder_once, QUESTION, "question"))] = option(
        BLIP2_PROMPT, max_length=CHARACTERS, example="Q: {question} A:"
    )
    """The form in which BLIP-2 is asked."""
    beams: int = option(5, ge=1, le=100, unit="answers", example=1)
    """Answers that are searched at a time (beam search). Fewer are faster."""
    tokens: int = option(30, ge=1, le=1000, unit="tokens", example=10)
    """Longest answer."""
    batch: Positive = option(8, unit="images", example=2)
    """Images that a reader sees at once. Lower it where memory runs out."""

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
    """Whether skin tones are read. `auto`: in an audit of professions, where the region can be had; true:
    always, and says what is missing."""
    region: Literal["auto", "toyworld", "face-alignment", "image"] = "auto"
    """Which pixels are skin: those of toyworld's figures by their palette (`toyworld`), the cheeks of the largest
    face by the library face-alignment (pip install 'triptych[faces]'), or the whole `image`. `auto`: the first
    on toyworld's models, else the second."""
    landmarks: Model = option("2DFAN4-11f355bf06.pth.tar", example="weights/2DFAN4-11f355bf06.pth.tar")
    """Checkpoint of face-alignment that finds landmarks (FAN)."""
    detector: Model = option("s3fd-619a316812.pth", example="weights/s3fd-619a316812.pth")
    """Checkpoint of face-alignment that finds faces (S3FD)."""
    illumination: Literal["none", "grey-world", "shades-of-grey", "white-patch", "given", "trust"] = "none"
    """How the colour of the light is set right before a tone is read: not at all (`none`), by an estimate from
    the image, by the light that `illuminant` names (`given`), or by TRUST's estimate of the albedo (`trust`).
    Coloured light moves tones; compare two settings before you report any."""
    illuminant: str | None = option(null="none", example="#ffd2a0")
    """The light, with `illumination: given`: a CIE illuminant such as A or D50, or the colour of a white
    surface in the images."""
    trust: Model | None = option(null="none", example="weights/trust")
    """Folder of TRUST's published files, with `illumination: trust`."""
    adaptation: Literal["bradford", "channels"] = "bradford"
    """What is scaled to take the light's colour out: cone responses (`bradford`), or red, green and blue."""
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
    """The network that captions the images: a folder or a hub id of BLIP or BLIP-2, or `toyworld-checker`,
    which puts into a sentence what it reads exactly."""
    prompt: str = option("", max_length=CHARACTERS, example="a photo of")
    """The words from which a caption goes on."""
    beams: int = option(3, ge=1, le=100, unit="captions", example=1)
    """Captions that are searched at a time (beam search). Fewer are faster."""
    tokens: int = option(30, ge=1, le=1000, unit="tokens", example=50)
    """Longest caption."""
    batch: Positive = option(8, unit="images", example=2)
    """Images that the network sees at once. Lower it where memory runs out."""


class Observe(Section):
    """What observes the images: a detector for boxes, a segmenter for masks, tags, features, questions, captions.

    ``toyworld`` names the small networks that come with the package; other names are files, folders or hub ids.
    """

    objects: bool = option(True, alters="measure")
    """Whether objects are searched for in the images. Turn it off for a quick look at what the model holds
    inside."""
    engine: Literal["auto", "toyworld-checker", "toyworld-scenes", "groundingdino", "detr"] = "auto"
    """Which program finds objects. `auto` goes by the checkpoints named; `groundingdino` is Grounding DINO with
    SAM; `detr` needs a `detector` alone and knows the classes it was
    trained on; `toyworld-checker` reads images of the bundled models exactly, by their palette, and
    `toyworld-scenes` renderings of `toyworld-skills` prompts."""
    detector: Model | None = option(
        null="toyworld on the bundled models; elsewhere no objects are searched for",
        example="groundingdino_swint_ogc.pth",
    )
    """Weights that find boxes: a checkpoint file of Grounding DINO, a folder or hub id in the layout of
    transformers, or `toyworld`."""
    segmenter: Model | None = option(
        null="toyworld on the bundled models; elsewhere none", example="sam_vit_h_4b8939.pth"
    )
    """Weights that turn boxes into masks (SAM): a checkpoint file, a folder or hub id, or `toyworld`."""
    text_encoder: Model = option("bert-base-uncased", example="weights/bert-base-uncased")
    """BERT by which Grounding DINO reads tags, for its original checkpoints. Give a folder where the machine
    has no network."""
    tags: list[Literal["prompt", "vocabulary", "ram"]] | None = option(
        min_length=1,
        null="what RAM gives where it is named, else the vocabulary, and the prompts' nouns",
        example=["prompt", "vocabulary"],
    )
    """What is looked for: the nouns of a triplet's prompts (`prompt`), a `vocabulary`, or what `ram` gives an
    image. With `prompt` alone nothing can be said of objects that prompts
    do not name."""
    vocabulary: str | None = option(null="everyday; toyworld on the bundled models", example="tags.txt")
    """A file with one tag per line to look for, or `everyday` (nouns that come with the package) or `toyworld`.
    Write your own to ask for the objects of your hypothesis."""
    ram: Model | None = option(null="none", example="ram_swin_large_14m.pth")
    """RAM's checkpoint, which gives each image its own tags, as in Wu et al. 2025."""
    ram_tags: str | None = option(
        null="ram_tag_list.txt beside the checkpoint", example="weights/ram_tag_list.txt"
    )
    """RAM's list of tags, which its checkpoint does not hold."""
    box_threshold: Share = option(0.25, unit="score from 0 to 1", example=0.35)
    """Least score of a box. Raise it where the detector sees things that are not there; Wu et al. 2025 state
    none."""
    text_threshold: Share = option(0.2, unit="score from 0 to 1", example=0.25)
    """Least score of a tag for a box."""
    nms_iou: Share | None = option(
        unit="intersection over union, from 0 to 1", null="0.5; 0.8 for toyworld's own detector", example=0.5
    )
    """Overlap above which the weaker of two boxes is dropped (non-maximum suppression)."""
    batch: Positive = option(4, unit="images", example=1)
    """Images that the detector sees at once. Lower it where memory runs out."""
    features: Annotated[Literal["auto"] | list[str], expects("`auto` or a list of names")] = option(
        "auto", example=["clip", "dino"], alters="measure"
    )
    """Vectors by which images are compared, such as clip, dino or resnet. `auto` takes those of Table 5 of Wu
    et al. 2025 whose weights are there; an empty list takes none."""
    # parts of features carry checksum and batch themselves, each feature apart, so that one more can be added
    feature_weights: dict[str, Model] = option(
        {}, example={"clip": "timm/vit_base_patch32_clip_224.openai"}, alters="nothing"
    )
    """Where the weights of each feature are: a file, a folder, a hub id, or `toyworld`, the default on the bundled
    models."""
    feature_batch: Positive = option(32, unit="images", example=8, alters="nothing")
    """Images whose features are computed at once."""
    # parts of tones carry how they were read themselves
    skin_tone: SkinTone = option(SkinTone(), example={"look": True}, alters="measure")
    """Whether and how skin tones are read from the images."""
    # parts of answers carry question, reading and weights themselves, each reader apart
    questions: Questions = option(Questions(), example={"readers": ["clip"]}, alters="measure")
    """What is asked of each image, and which networks answer."""
    # parts of captions carry who wrote them themselves
    captions: Captions = option(
        Captions(), example={"model": "Salesforce/blip-image-captioning-base"}, alters="measure"
    )
    """Which network captions the images."""
    device: Device = option("auto", example="cuda")
    """Where these networks run: auto, cpu, cuda, cuda:1 or mps. `auto`: where the images were generated, if
    that is there."""
