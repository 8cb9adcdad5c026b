"""The sections of ``triplets.yaml``, with every default of theirs in this one place."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from hooks.attention import definitions
from hooks.prompt.positions import GROUPS
from probes.config.caption_options import Captions
from probes.config.question_options import Questions
from probes.config.skin_options import SkinTone
from probes.config.types import (
    LABEL,
    POINTS,
    Alters,
    AutoOrCount,
    AutoOrWorkers,
    Control,
    Definition,
    Device,
    Globs,
    Model,
    Pairs,
    PathOrName,
    Permutations,
    Pixels,
    Points,
    Positive,
    Resamples,
    Section,
    Seed,
    SentenceTemplate,
    Share,
    Step,
    Text,
    Unique,
    Windows,
    Word,
    fail,
)
from probes.prompts.grammar.plurals import plural


class Indicator(Section):
    """The word that stands for the person. A control is interchangeable with the indicator it names.

    ``true`` names the reference. ``plural`` goes for *people* in captions; nothing (null): by the dictionary.
    """

    word: Word
    # what it alters are prompts, which are compared with a run's themselves
    plural: Annotated[Word | None, Alters("nothing")] = None
    control: Annotated[Control, Alters("measure")] = False

    @property
    def forms(self) -> tuple[str, str]:
        """The word and its plural: the one that is given, or the dictionary's.

        Examples
        --------
        >>> Indicator(word="woman").forms, Indicator(word="ze", plural="zem").forms
        (('woman', 'women'), ('ze', 'zem'))
        """
        return self.word, self.plural or plural(self.word)


class Sampler(Section):
    """How an image is generated. Nothing (null) means the model's own default."""

    steps: Annotated[int, Field(ge=1, le=1000)] = 30
    guidance_scale: Annotated[float, Field(ge=0)] | None = None
    scheduler: str | None = None
    negative_prompt: str = ""
    # own: each prompt and seed its own noise, shared by the words of a triplet; shared: one for each seed;
    # independent: each image its own
    noise: Literal["own", "shared", "independent"] = "own"
    height: Pixels | None = None
    width: Pixels | None = None


class Capture(Section):
    """What is read inside the model: sites to compare, word maps, sites whose raw tensors are kept.

    Sites of `pool` are kept as their mean over space, or over each group of token positions around the indicator's word
    (`triptych decode` reads them). Word maps are made by a definition of `hooks.attention.definitions`.
    """

    sites: Globs = "default"
    words: bool = True
    definition: Definition = definitions.DAAM.name
    keep: list[str] = Field([])
    pool: list[str] = Field([])


class Generate(Section):
    """How the work is cut up: triplets with one seed per batch and per part; number format; device; processes.

    ``workers`` processes of this machine generate and observe the images, and measure; ``auto``: as many as cores and
    memory serve, but one that generates or observes on a GPU. Their number alters no byte of what is stored.
    """

    batch_triplets: AutoOrCount = "auto"
    part_triplets: Positive = 8
    # auto: float16 on a CUDA device, float32 elsewhere and for the bundled models
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = "auto"
    device: Device = "auto"
    workers: Annotated[AutoOrWorkers, Alters("nothing")] = "auto"


class Observe(Section):
    """What observes the images: tags to search for, a detector for boxes, a segmenter for masks.

    By default toyworld's own detectors search the images of the bundled models, for everything they know; the
    engine `toyworld-checker` reads them exactly, by their palette, and `toyworld-scenes` every single object in those
    of `toyworld-skills`. The engine `detr` needs a `detector` alone, a folder or hub id of DETR such as
    ``facebook/detr-resnet-101-dc5``, or a ``.pth`` of its authors' code; it looks for the classes it was trained on,
    and its masks are filled boxes.
    `detector` and `segmenter` are checkpoint files (``groundingdino_swint_ogc.pth``, ``sam_vit_h_4b8939.pth``) or
    folders or hub ids in the layout of transformers; ``toyworld`` names the small ones that come with the package.
    `tags` says what is looked for: the nouns of a triplet's prompts, a `vocabulary` (a file with a tag a line;
    ``everyday``, the everyday nouns that come with the package; ``toyworld``, everything there is in the toy world),
    what a `tagger` (an open_clip folder or ``ViT-B-32/openai``) ranks highest of a vocabulary, or what `ram` gives an
    image (RAM's checkpoint ``ram_swin_large_14m.pth``; `ram_tags` is its list of tags, which that does not hold).
    By default: the taggers that are named, else ``everyday``, and the prompts' nouns. With `prompt` alone
    nothing can be said of what prompts do not name.
    Wu et al. 2025 state none of the three thresholds.
    `features` are vectors by which images are compared (`analysis.observe.features.registry`): ``auto`` takes those of
    the paper's Table 5 whose weights are there. `feature_weights` says where: a file, a folder, a hub id, a name of
    timm's or open_clip's, or ``toyworld``, the default of the bundled models' images.
    `questions` says what is asked of an image, and whom (`probes.config.question_options`).
    `captions` says what captions the images (`probes.config.caption_options`).
    """

    objects: Annotated[bool, Alters("measure")] = True
    engine: Literal[
        "auto", "toyworld-checker", "toyworld-scenes", "groundingdino", "transformers", "detr"
    ] = "auto"
    detector: Model | None = None
    segmenter: Model | None = None
    text_encoder: Model = "bert-base-uncased"
    # none: the taggers that are named, else a vocabulary, and the prompt's nouns
    tags: Annotated[list[Literal["prompt", "vocabulary", "tagger", "ram"]], Field(min_length=1)] | None = None
    vocabulary: PathOrName | None = None
    tagger: Model | None = None
    tagger_top: Positive = 10  # tags of the vocabulary that the tagger keeps for an image
    ram: Model | None = None
    ram_tags: PathOrName | None = None  # none: ram_tag_list.txt beside the checkpoint
    box_threshold: Share = 0.25
    text_threshold: Share = 0.2
    nms_iou: Share | None = None  # none: 0.5; 0.8 for toyworld's own detector
    batch: Positive = 4
    features: Annotated[
        Literal["auto"] | list[str], Field(description="`auto` or a list of names"), Alters("measure")
    ] = "auto"
    # parts of features carry checksum and batch themselves, each feature apart, so that one more can be added
    feature_weights: Annotated[dict[str, Model], Alters("nothing")] = Field({})
    feature_batch: Annotated[Positive, Alters("nothing")] = 32
    # parts of tones carry how they were read themselves
    skin_tone: Annotated[SkinTone, Alters("measure")] = SkinTone()
    # parts of answers carry question, reading and weights themselves, each reader apart
    questions: Annotated[Questions, Alters("measure")] = Questions()
    # parts of captions carry who wrote them themselves
    captions: Annotated[Captions, Alters("measure")] = Captions()
    device: Device = "auto"  # auto: the one the images were generated on, where there is one


class Trace(Section):
    """Activation patching between the words of a triplet: its sites, its number of prompts and seeds (the run's first).

    The reference's images are generated with activations of the two words of the first contrast at each of the `sites`
    (addresses or patterns; of attentions `part`), at all of its cross-attentions together and, by `curve`, at these
    from a step on: a number of points along the steps, or the steps. `source` takes a donor's activation from its
    own trajectory or recomputes it at the recipient's latent; to keys and values it makes no difference. `necessity`
    generates the words' images with activations of the reference, too, and `floor` the reference's with those of its
    controls: where places are redundant each is enough alone, and none is needed.

    More on request: `pairs` of the `sites` patched together (``all``, or a list; both of the same part), `windows` of
    steps at each site (a number of equal ones, or the first step of each and the one after its last), each head of some
    sites (`heads`), groups of token `positions` (`hooks.position_groups`), and subsets of the cross-attentions for
    Shapley values (`shapley`: ``exact``, or a number of sampled permutations).
    `cuts` are generated to check the method: their shares are known. `batch` is the number of images generated at once.
    """

    sites: Annotated[Unique[str], Field(min_length=1)] = Field(["unet.*.cross"])
    part: Literal["key+value", "key", "value", "query", "heads", "probabilities", "output"] = "key+value"
    source: Literal["own", "local"] = "own"
    prompts: Positive = 24
    seeds: Positive = 1
    necessity: bool = True
    floor: bool = True
    cuts: bool = True
    curve: Annotated[
        Points | Unique[Step], Field(description=f"a number of points from 0 to {POINTS} or a list of steps")
    ] = 5
    windows: Windows = 0
    heads: Unique[str] = Field([])
    positions: Unique[Literal[*GROUPS]] = Field([])
    shapley: Permutations = False
    pairs: Pairs = Field([])
    batch: AutoOrCount = "auto"

    @model_validator(mode="after")
    def _consistent(self) -> Trace:
        if self.batch != "auto" and self.batch < 3:
            raise fail(
                f"expected at least 3 images, a recipient, a donor and one between, got {self.batch}: raise it",
                at=("batch",),
            )
        return self


class Logits(Section):
    """Networks whose logit is an outcome of traced images: CLIP between two texts, a classifier between two classes.

    ``texts`` are what CLIP (``clip`` of ``observe.feature_weights``) holds an image against: the first for the first
    word of the first contrast, the second for its second. None: *a photo of a* and the word. `classifier` is a folder
    or hub id in timm's layout; `classes` are two of its classes, by number or by name (``label_names`` in its
    ``config.json``), in the order of the words.
    """

    texts: Annotated[Unique[Text], Field(min_length=2, max_length=2)] | None = None
    classifier: Model | None = None
    classes: Annotated[
        list[
            Annotated[
                Annotated[int, Field(ge=0, le=10**6)] | Text,
                Field(description="the number or the name of a class"),
            ]
        ],
        Field(min_length=2, max_length=2),
    ] = Field([0, 1])


class Measure(Section):
    """Statistics: resamples, level, seed, the readout of prompt space, and differences that would matter.

    ``equivalence`` gives a metric the size of a gap that would matter (``ssim: 0.02``), to be able to claim none.

    For objects: ``theta`` cuts word maps into masks, a word guides an object of which it covers more than ``sigma``
    (``sigma_human`` where both refer to humans); ``mask_words`` says whose masks can guide, ``nouns`` and ``compounds``
    how nouns are found, and bias scores are shown of objects detected at least ``min_count`` times for a word.
    ``human_words`` says which words refer to humans: the six of Wu et al. 2025 and the run's own indicators
    (``paper``), or every human word that the package lists (``long``).

    ``smallest_effect`` is the smallest gap that would matter, as a share of the distance between the two sides of a
    contrast, and at least the ``least_delta`` of the measure (`analysis.metrics.registry`). ``primary`` names the
    measure that a run is asked about first (``t``, ``z0``, ``ssim``, ``diff_pix``, or another that
    `analysis.metrics.registry` holds), the others are secondary.

    ``pictures`` asks for further comparisons of pictures, in tables beside the others: ``ssim_full``, SSIM over all
    pixels (``ssim`` leaves out the 3 at the border, where its window does not fit), and ``diff_pix_scaled``, whose
    smallest region is 40 pixels of an image of 512 x 512 and in proportion of others (``diff_pix``: 40 of any image).

    ``outcomes`` of the images of a trace (`analysis.methods.tracing.outcomes`): ``verdict`` and presence of things that
    the checker knows, on toyworld's models; on others the gap by a metric of pictures; on all ``clip`` and
    ``classifier``, logits by networks that `logits` names. None: ``verdict``, else ``ssim``.
    """

    bootstrap: Resamples = 2000
    permutations: Resamples = 10000
    level: Annotated[float, Field(gt=0, lt=1)] = 0.95
    seed: Seed = 0
    text_readout: Literal["sequence", "eos", "words"] = "sequence"
    theta: Annotated[float, Field(ge=0, lt=1)] = 0.35
    sigma: Share = 0.7
    sigma_human: Share = 0.25
    mask_words: Literal["nouns", "all"] = "nouns"
    nouns: Literal["lemminflect", "textblob", "nltk"] = "lemminflect"
    compounds: bool = False
    human_words: Literal["paper", "long"] = "paper"
    min_count: Positive = 5
    equivalence: dict[str, Annotated[float, Field(gt=0)]] = Field({})
    smallest_effect: Annotated[float, Field(gt=0, le=1)] = 0.1
    primary: Annotated[str, Field(min_length=1)] = "z0"
    pictures: list[Literal["ssim_full", "diff_pix_scaled"]] = Field([])
    outcomes: Annotated[list[str], Field(min_length=1)] | None = None
    logits: Logits = Logits()

    @model_validator(mode="after")
    def _ordered(self) -> Measure:
        if self.sigma_human > self.sigma:
            raise fail(
                f"expected at most sigma ({self.sigma}), got {self.sigma_human}: lower it",
                at=("sigma_human",),
            )
        return self


class GepVariant(Section):
    """Another way to make the estimates of an audit: its fields stand in the place of those of `Gep`."""

    reference: str | None = None
    template: SentenceTemplate | None = None
    subjects: Annotated[list[Word], Field(min_length=1)] | None = None
    contexts: Annotated[list[Word], Field(min_length=1)] | None = None
    negative: Annotated[list[Word], Field(min_length=6)] | None = None
    ensemble: Annotated[int, Field(ge=1, le=100)] | None = None


class Gep(Section):
    """An audit of attributes (GEP, Zhang et al. 2023), of prompts that have a ``context`` among their levels.

    ``attributes`` are names with their phrases (``dress: in a dress``); none: those that the prompts name, else the
    paper's 15. Estimates are made with ``clip``, one of ``observe.features`` (none: the paper's ``clip_vit_l_14`` where
    ``observe.feature_weights`` or ``observe.features`` names it, else ``clip``): C and CC from the attribute's name
    without its preposition and ``reference``; CLS from classifiers trained on sentences of ``subjects``, phrases and
    ``contexts`` (none: the run's), put together by ``template``, and ``negative`` sentences (none: the same without
    the phrase), ``ensemble`` of them an attribute. ``variants`` are further ways to make CC and CLS, by name, read
    beside them (the paper's Tables 8 and 9).

    ``labelled`` images of each word and attribute set the estimate ``prediction`` right, where the toyworld checker
    labels them, and the tables say how many labels an interval of ``half_width`` takes. ``examples`` of each attribute
    and scale are generated for the artificial sets of Table 17; none with 0.
    """

    attributes: Annotated[dict[Word, Word], Field(min_length=1)] | None = None
    clip: str | None = None
    reference: str = "an object"
    template: SentenceTemplate = "{subject} {attribute} {context}"
    subjects: Annotated[list[Word], Field(min_length=1)] = Field(["A man", "A woman", "A person"])
    contexts: Annotated[list[Word], Field(min_length=1)] | None = None
    negative: Annotated[list[Word], Field(min_length=6)] | None = None
    ensemble: Annotated[int, Field(ge=1, le=100)] = 10
    variants: dict[Annotated[str, Field(pattern=LABEL)], GepVariant] = Field({})
    prediction: Literal["CLS", "CC", "C"] = "CLS"
    labelled: Annotated[int, Field(ge=5, le=100_000)] = 20
    half_width: Annotated[float, Field(gt=0, lt=1)] = 0.1
    examples: Annotated[int, Field(ge=0, le=1000)] = 10


class Report(Section):
    """The page: how many triplets its gallery shows, and whether ``gallery/`` is written, which shows all of them."""

    gallery: Annotated[int, Field(ge=0, le=10_000)] = 24
    all_triplets: bool = True
