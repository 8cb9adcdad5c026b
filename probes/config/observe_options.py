"""The section ``observe:`` of ``triplets.yaml``: what observes the images."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from probes.config.question_options import Questions
from probes.config.skin_options import SkinTone
from probes.fields.types import (
    CHARACTERS,
    Alters,
    Device,
    Model,
    Positive,
    Section,
    Share,
    option,
    takes,
)

CHECKER = "toyworld-checker"  # as `captions.model`: no captioning network


class Captions(Section):
    """Captions of the images (DALL-Eval, Cho et al. 2023, appendix D.1), kept verbatim."""

    model: Annotated[
        Model | None,
        option(null="none, and nothing is captioned", example="Salesforce/blip-image-captioning-base"),
    ] = None
    """The network that captions the images: a folder or a hub id of BLIP or BLIP-2, or `toyworld-checker`,
    which puts into a sentence what it reads exactly."""
    prompt: Annotated[str, Field(max_length=CHARACTERS), option(example="a photo of")] = ""
    """The words from which a caption goes on."""
    beams: Annotated[int, Field(ge=1, le=100), option(unit="captions", example=1)] = 3
    """Captions that are searched at a time (beam search). Fewer are faster."""
    tokens: Annotated[int, Field(ge=1, le=1000), option(unit="tokens", example=50)] = 30
    """Longest caption."""
    batch: Annotated[Positive, option(unit="images", example=2)] = 8
    """Images that the network sees at once. Lower it where memory runs out."""


class Observe(Section):
    """What observes the images: a detector for boxes, a segmenter for masks, tags, features, questions, captions.

    ``toyworld`` names the small networks that come with the package; other names are files, folders or hub ids.
    """

    objects: Annotated[bool, Alters("measure")] = True
    """Whether objects are searched for in the images. Turn it off for a quick look at what the model holds
    inside."""
    engine: Literal["auto", "toyworld-checker", "toyworld-scenes", "groundingdino", "detr"] = "auto"
    """Which program finds objects. `auto` goes by the checkpoints named; `groundingdino` is Grounding DINO with
    SAM; `detr` needs a `detector` alone and knows the classes it was
    trained on; `toyworld-checker` reads images of the bundled models exactly, by their palette, and
    `toyworld-scenes` renderings of `toyworld-skills` prompts."""
    detector: Annotated[
        Model | None,
        option(
            null="toyworld on the bundled models; elsewhere no objects are searched for",
            example="groundingdino_swint_ogc.pth",
        ),
    ] = None
    """Weights that find boxes: a checkpoint file of Grounding DINO, a folder or hub id in the layout of
    transformers, DETR's authors' `.pth`, or `toyworld`."""
    segmenter: Annotated[
        Model | None,
        option(null="toyworld on the bundled models; elsewhere none", example="sam_vit_h_4b8939.pth"),
    ] = None
    """Weights that turn boxes into masks (SAM): a checkpoint file, a folder or hub id, or `toyworld`."""
    text_encoder: Annotated[Model, option(example="weights/bert-base-uncased")] = "bert-base-uncased"
    """BERT by which Grounding DINO reads tags, for its original checkpoints. Give a folder where the machine
    has no network."""
    tags: Annotated[
        Annotated[list[Literal["prompt", "vocabulary", "ram"]], Field(min_length=1)] | None,
        option(
            null="what RAM gives where it is named, else the vocabulary, and the prompts' nouns",
            example=["prompt", "vocabulary"],
        ),
    ] = None
    """What is looked for: the nouns of a triplet's prompts (`prompt`), a `vocabulary`, or what `ram` gives an
    image. With `prompt` alone nothing can be said of objects that prompts
    do not name."""
    vocabulary: Annotated[
        str | None, option(null="everyday; toyworld on the bundled models", example="tags.txt")
    ] = None
    """A file with one tag per line to look for, or `everyday` (nouns that come with the package) or `toyworld`.
    Write your own to ask for the objects of your hypothesis."""
    ram: Annotated[Model | None, option(null="none", example="ram_swin_large_14m.pth")] = None
    """RAM's checkpoint, which gives each image its own tags, as in Wu et al. 2025."""
    ram_tags: Annotated[
        str | None,
        option(null="ram_tag_list.txt beside the checkpoint", example="weights/ram_tag_list.txt"),
    ] = None
    """RAM's list of tags, which its checkpoint does not hold."""
    box_threshold: Annotated[Share, option(unit="score from 0 to 1", example=0.35)] = 0.25
    """Least score of a box. Raise it where the detector sees things that are not there; Wu et al. 2025 state
    none."""
    text_threshold: Annotated[Share, option(unit="score from 0 to 1", example=0.25)] = 0.2
    """Least score of a tag for a box."""
    nms_iou: Annotated[
        Share | None,
        option(
            unit="intersection over union, from 0 to 1",
            null="0.5; 0.8 for toyworld's own detector",
            example=0.5,
        ),
    ] = None
    """Overlap above which the weaker of two boxes is dropped (non-maximum suppression)."""
    batch: Annotated[Positive, option(unit="images", example=1)] = 4
    """Images that the detector sees at once. Lower it where memory runs out."""
    features: Annotated[
        Annotated[Literal["auto"] | list[str], takes("`auto` or a list of names")],
        option(example=["clip", "dino"]),
        Alters("measure"),
    ] = "auto"
    """Vectors by which images are compared, such as clip, dino or resnet. `auto` takes those of Table 5 of Wu
    et al. 2025 whose weights are there; an empty list takes none."""
    # parts of features carry checksum and batch themselves, each feature apart, so that one more can be added
    feature_weights: Annotated[
        dict[str, Model], option(example={"clip": "ViT-B-32/openai"}), Alters("nothing")
    ] = {}
    """Where the weights of each feature are: a file, a folder, a hub id, a name of timm's or open_clip's, or
    `toyworld`, the default on the bundled models."""
    feature_batch: Annotated[Positive, option(unit="images", example=8), Alters("nothing")] = 32
    """Images whose features are computed at once."""
    # parts of tones carry how they were read themselves
    skin_tone: Annotated[SkinTone, option(example={"look": True}), Alters("measure")] = SkinTone()
    """Whether and how skin tones are read from the images."""
    # parts of answers carry question, reading and weights themselves, each reader apart
    questions: Annotated[Questions, option(example={"readers": ["clip"]}), Alters("measure")] = Questions()
    """What is asked of each image, and which networks answer."""
    # parts of captions carry who wrote them themselves
    captions: Annotated[
        Captions, option(example={"model": "Salesforce/blip-image-captioning-base"}), Alters("measure")
    ] = Captions()
    """Which network captions the images."""
    device: Annotated[Device, option(example="cuda")] = "auto"
    """Where these networks run: auto, cpu, cuda, cuda:1 or mps. `auto`: where the images were generated, if
    that is there."""
