"""What is traced, measured, audited and reported, in ``triplets.yaml``."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from hooks.prompt.spans import GROUPS, REST
from probes.fields.types import (
    CHARACTERS,
    LABEL,
    READER,
    Model,
    Positive,
    Section,
    Seed,
    Share,
    Text,
    Unique,
    Word,
    expects,
    fail,
    option,
    shown,
)

STEPS = 1000  # of windows: more than any sampler has
_AS_ABOVE = "as in `gep` itself"
_OTHERS = ["a dog", "a cat", "a tree", "a house", "a car", "a street"]


def _require_ascending(steps: list[int]) -> list[int]:
    """Return `steps`, a window [first, end], if the first is smaller; raise an error otherwise."""
    if steps[0] >= steps[1]:
        raise fail(
            f"expected the first step and the one after the last, got {shown(steps)}: write it as [0, 10]"
        )
    return steps


def _require_sentence_template(value: str) -> str:
    """Return `value` if it has {subject}, {attribute} and perhaps {context}, each once; raise an error otherwise."""
    places = re.findall(r"{([^{}]*)}", value)
    unknown = next((name for name in places if name not in ("subject", "attribute", "context")), None)
    if unknown is None and {"subject", "attribute"} <= {*places} and len({*places}) == len(places):
        return value
    got = f"{{{unknown}}}" if unknown else shown(value)
    raise fail(
        f"expected {{subject}}, {{attribute}} and {{context}}, each once at most, got {got}: write them"
    )


def _listed_formats(value: Any) -> Any:
    """Return formats of figures as a list: SVG of true, none of false, two of ``pdf,png``."""
    if isinstance(value, bool):
        return ["svg"] if value else []
    texts = isinstance(value, list) and all(isinstance(entry, str) for entry in value)
    return ",".join(value).split(",") if texts and value else value


FigureFormat = Literal["svg", "pdf", "png"]
Resamples = Annotated[int, Field(ge=1, le=1_000_000)]
SentenceTemplate = Annotated[str, Field(max_length=CHARACTERS), AfterValidator(_require_sentence_template)]
Step = Annotated[int, Field(ge=0, le=STEPS)]
_Window = Annotated[
    list[Step],
    Field(min_length=2, max_length=2),
    expects("the first step and the one after the last, as [0, 10]"),
    AfterValidator(_require_ascending),
]
Windows = Annotated[
    Step | list[_Window],
    expects(f"a number from 0 to {STEPS} or a list of windows such as [[0, 10], [10, 20]]"),
]


class Trace(Section):
    """Activation patching (causal tracing): the reference's images with activations of the first contrast's words."""

    sites: Annotated[
        Literal["default"] | Annotated[Unique[str], Field(min_length=1)],
        expects("`default` or a list of sites such as [text.layers.0, unet.*.cross]"),
    ] = option("default", example=["text.layers.*", "unet.*.cross"])
    """Sites that are patched, each alone: addresses or patterns of docs/reference/sites.md. `default`: every
    cross-attention of a U-Net; of a diffusion transformer the pooled text, each of several text encoders, and
    every joint attention."""
    part: Literal["key+value", "key", "value", "query", "heads", "probabilities", "output"] = "key+value"
    """What of an attention is patched: what the text gives (`key+value`), what the layer adds (`output`),
    where it looks (`probabilities`), and so on."""
    source: Literal["own", "local"] = "own"
    """Where a donor's activation comes from: its own trajectory, or recomputed at the recipient's latent
    (`local`, twice the time). The same for keys and values of cross-attention."""
    prompts: Positive = option(24, unit="prompts", example=48)
    """Prompts that are traced, the run's first."""
    seeds: Positive = option(1, unit="seeds", example=3)
    """Seeds of each prompt that are traced, the run's first."""
    necessity: bool = True
    """Whether the words' images are also generated with activations of the reference: which place is needed,
    beside which is enough. Twice the time."""
    floor: bool = True
    """Whether the reference's images are also generated with activations of its synonyms: what any word would
    change."""
    cuts: bool = True
    """Whether patches whose share is known are generated too, to check the method."""
    windows: Windows = option(0, unit="windows, or steps", example=[[0, 10], [10, 20]])
    """Windows of steps in which each site is patched: a number of equal ones, or first steps with the one
    after the last. Of one prompt 4 unless given."""
    heads: Unique[str] = option([], example=["unet.mid.attn.0.cross"])
    """Attentions each of whose heads is patched alone."""
    positions: Unique[Literal[*GROUPS, REST]] = option([], example=["word", "rest"])
    """Groups of token positions that are patched alone; `rest`: all but the word."""
    batch: Annotated[
        Literal["auto"] | Annotated[int, Field(ge=3, le=2**31 - 1)],
        expects("`auto` or an integer of at least 3 (a recipient, a donor and one between)"),
    ] = option("auto", unit="images", example=8)
    """Images generated at once."""


def significance_level(level: float) -> float:
    """Return one minus a confidence level, rounded to 12 digits so that 0.95 gives 0.05.

    >>> significance_level(0.95), 1 - 0.95
    (0.05, 0.050000000000000044)
    """
    return round(1 - level, 12)


class Logits(Section):
    """Networks whose logit is an outcome of traced images: CLIP between two texts, a classifier between two classes."""

    texts: Unique[Text] | None = option(
        min_length=2,
        max_length=2,
        null="*a photo of a* and the word",
        example=["a photo of a man", "a photo of a woman"],
    )
    """Two texts that CLIP (`clip` of `observe.feature_weights`) compares an image with, in the order of the
    first contrast's words."""
    classifier: Model | None = option(null="none", example="weights/gender")
    """Classifier of images: a folder or hub id in timm's layout."""
    classes: list[
        Annotated[Annotated[int, Field(ge=0, le=10**6)] | Text, expects("the number or the name of a class")]
    ] = option([0, 1], min_length=2, max_length=2, unit="number of a class", example=["male", "female"])
    """Two classes of the classifier, by number or name (`label_names` in its config.json), in the order of
    the words."""


class Measure(Section):
    """Statistics, what would matter, and how objects are put down to words."""

    bootstrap: Resamples = option(2000, unit="resamples", example=10000)
    """Resamples of the prompts behind every bootstrap interval. Take 10,000 for a paper."""
    permutations: Resamples = option(10000, unit="permutations", example=100000)
    """Random sign flips behind every p-value, where all would be too many. The smallest p is about one over
    it."""
    level: float = option(0.95, gt=0, lt=1, unit="share", example=0.99)
    """Confidence level of intervals; tests are at one minus it."""
    seed: Seed = option(0, unit="seed", example=1)
    """Seed of resampling."""
    text_readout: Literal["sequence", "eos", "words"] = "sequence"
    """What is compared in prompt space: the whole sequence, its end token, or the words that all texts of a
    triplet share."""
    theta: float = option(0.35, ge=0, lt=1, unit="share", example=0.4)
    """Share of a word map's maximum at which it is cut into a mask."""
    sigma: Share = option(0.7, unit="share", example=0.6)
    """Share of an object's mask that a word's mask must cover to guide it (Wu et al. 2025, section 6.2)."""
    sigma_human: Share = option(0.25, unit="share", example=0.2)
    """The same where word and object both refer to humans; at most `sigma`."""
    mask_words: Literal["nouns", "all"] = "nouns"
    """Words whose masks can guide an object."""
    nouns: Literal["hanta", "nltk"] = "hanta"
    """Program that finds the nouns of a prompt. `hanta` comes with the package; `nltk` is that of Wu et al.
    2025."""
    compounds: bool = False
    """Whether two nouns side by side (*tennis racket*) count as one."""
    human_words: Literal["paper", "long"] = "paper"
    """Words that refer to humans: the six of Wu et al. 2025 and the run's own indicators, or every one that
    the package lists (`long`)."""
    min_count: Positive = option(5, unit="images", example=20)
    """Images with an object that some word must have before its bias score is shown. The paper takes 20 of
    its large sets."""
    equivalence: dict[str, Annotated[float, Field(gt=0)]] = option(
        {}, unit="of the metric", example={"ssim": 0.02}
    )
    """For a metric, the size of a gap that would matter. A gap shown to be smaller is called equivalent to
    none."""
    smallest_effect: float = option(0.1, gt=0, le=1, unit="share", example=0.2)
    """Smallest gap that would matter, as a share of the distance between the two sides of a contrast.
    `triptych power` says how many prompts it takes."""
    primary: str = option("z0", min_length=1, example="ssim")
    """Measure that is tested first: t, z0, ssim, diff_pix or another metric (docs/reference/metrics.md).
    Choose it before you look."""
    pictures: list[Literal["ssim_full"]] = option([], example=["ssim_full"])
    """Further comparisons of pictures: SSIM over all pixels."""
    outcomes: list[str] | None = option(
        min_length=1, null="verdict on toyworld's models, else ssim", example=["clip", "ssim"]
    )
    """Numbers of an image whose change is traced (docs/how_to/trace.md); the report shows the first."""
    logits: Logits = option(Logits(), example={"texts": ["a photo of a man", "a photo of a woman"]})
    """Networks of the outcomes `clip` and `classifier`."""

    @property
    def alpha(self) -> float:
        """Significance level of every test: one minus the confidence level."""
        return significance_level(self.level)

    @model_validator(mode="after")
    def _check_sigmas(self) -> Measure:
        """Raise an error if `sigma_human` is larger than `sigma`."""
        if self.sigma_human > self.sigma:
            raise fail(
                f"expected at most sigma ({self.sigma}), got {self.sigma_human}: lower it",
                at=("sigma_human",),
            )
        return self


class GepVariant(Section):
    """Another way to make the estimates of an audit: its fields stand in the place of those of ``gep``."""

    reference: str | None = option(null=_AS_ABOVE, example="a thing")
    """Comparison of C and CC."""
    template: SentenceTemplate | None = option(null=_AS_ABOVE, example="{subject} {context} {attribute}")
    """Form of a sentence."""
    subjects: list[Word] | None = option(min_length=1, null=_AS_ABOVE, example=["A person"])
    """Subjects of the sentences."""
    contexts: list[Word] | None = option(min_length=1, null=_AS_ABOVE, example=["in a park", "at home"])
    """Contexts of the sentences."""
    negative: list[Word] | None = option(min_length=6, null=_AS_ABOVE, example=_OTHERS)
    """Sentences without the attribute."""
    ensemble: int | None = option(ge=1, le=100, unit="classifiers", null=_AS_ABOVE, example=1)
    """Classifiers of an attribute."""


class Gep(Section):
    """An audit of attributes, of prompts that have a ``context`` among their levels (docs/how_to/gep.md)."""

    attributes: dict[Word, Word] | None = option(
        min_length=1,
        null="those that the prompts name, else the paper's 15",
        example={"dress": "in a dress", "suit": "in a suit"},
    )
    """Attributes by name, each with its phrase in a sentence."""
    clip: str | None = option(
        null="the paper's clip_vit_l_14 where `observe.feature_weights` or `observe.features` names it, else clip",
        example="clip_vit_l_14",
    )
    """Feature of `observe.features` by which estimates are made."""
    reference: str = option("an object", example="a thing")
    """What C and CC compare an attribute's name with."""
    template: SentenceTemplate = option(
        "{subject} {attribute} {context}", example="{subject} {context} {attribute}"
    )
    """Form of the sentences that train CLS."""
    subjects: list[Word] = option(["A man", "A woman", "A person"], min_length=1, example=["A person"])
    """Subjects of these sentences."""
    contexts: list[Word] | None = option(
        min_length=1, null="those of the run's prompts", example=["in a park", "at home"]
    )
    """Contexts of these sentences."""
    negative: list[Word] | None = option(
        min_length=6, null="the same sentences without the phrase", example=_OTHERS
    )
    """Sentences of images without the attribute, which train CLS."""
    ensemble: int = option(10, ge=1, le=100, unit="classifiers", example=1)
    """Classifiers of an attribute, whose scores are averaged."""
    variants: dict[Annotated[str, Field(pattern=LABEL)], GepVariant] = option(
        {}, example={"thing": {"reference": "a thing"}}
    )
    """Further ways to make CC and CLS, by name, shown beside them (the paper's Tables 8 and 9)."""
    prediction: Literal["CLS", "CC", "C"] = "CLS"
    """Estimate that labelled images correct: by classifiers, by CLIP against the reference (`CC`), or by CLIP
    alone (`C`)."""
    labelled: int = option(20, ge=5, le=100000, unit="images", example=50)
    """Images of each word and attribute that are labelled to correct the estimate."""
    examples: int = option(10, ge=0, le=1000, unit="examples", example=0)
    """Artificial sets of each attribute and scale of the paper's Table 17; 0: none."""


class DallEval(Section):
    """An audit of professions (DALL-Eval, Cho et al. 2023), of prompts with a ``profession`` among their levels."""

    readers: Unique[Annotated[str, Field(pattern=READER)]] = option(
        ["human", "toyworld-checker", "blip2", "toyworld-vqa", "clip"],
        min_length=1,
        example=["human", "clip"],
    )
    """Whose reading of the images is shown first: the first of these that read them. People who answered
    about some images alone come last."""
    tone: Literal["ita", "ciede2000", "dalleval2023"] = "ita"
    """How a skin is put to a tone of the Monk scale in figures and sentences: nearest by angle, by colour
    difference (`ciede2000`), or as the authors' published code does (`dalleval2023`)."""
    bare: Literal["attributes", "all", "none"] = "attributes"
    """Where the prompt without a profession counts among the professions; `attributes`: as in the paper's
    tables."""


class Skills(Section):
    """Visual skills (PaintSkills, Cho et al. 2023), of prompts that have a ``skill`` among their levels.

    The paper leaves three choices open: ``object``, ``count`` and ``spatial``.
    """

    threshold: Share | None = option(
        unit="score",
        null="0.7 for the engine detr, as its authors show them; 0 for any other",
        example=0.5,
    )
    """Score above which a detection counts. The paper states none."""
    object: Literal["any", "first"] = "any"
    """An object counts as drawn where any detection, or the `first` (surest), is of its class."""
    count: Literal["exact", "at_least"] = "exact"
    """Detections of the class that count as the right number."""
    spatial: Literal["first", "surest"] = "first"
    """Detections between which a relation must hold: the surest of each class (`first`), or the two `surest`
    of all."""
    labels: dict[Word, Word] = option({}, example={"bike": "bicycle"})
    """What the detector calls an object."""


class Report(Section):
    """The page."""

    gallery: Annotated[
        Literal["all"] | Annotated[int, Field(ge=0, le=10000)],
        expects("`all`, or an integer from 0 to 10,000"),
    ] = option(300, unit="triplets", example="all")
    """Triplets (each seed counted) that `gallery/` shows: those with the largest and the smallest gaps, those
    with an object that differs, and others at random."""
    figures: Annotated[
        Unique[FigureFormat],
        BeforeValidator(_listed_formats, json_schema_input_type=bool | list[FigureFormat]),
        expects("true, false or a list of svg, pdf and png"),
    ] = option(["svg"], example=["pdf", "png"])
    """Formats in which figures are written under `figures/`: `svg`, `pdf` and `png`. `false`: none, on the
    page neither, which is much quicker."""
