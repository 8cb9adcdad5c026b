"""What is generated, in ``triplets.yaml``: words, sampler, what is captured, edits, other programs' images, `stop`."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, GetPydanticSchema, model_validator

from hooks.attention import definitions
from probes.fields.types import (
    ADDRESS,
    CHARACTERS,
    HINT,
    IMAGES,
    AutoOrCount,
    Device,
    Model,
    Positive,
    Section,
    Seed,
    Share,
    Unique,
    Word,
    expects,
    fail,
    option,
    require_person_placeholder,
    shown,
)
from probes.prompts.grammar.english import plural

AUTO, LOCAL, NONE = "auto", "local", "none"  # addresses of a cluster
CLUSTER_WORKERS = 100_000
WORKERS = 256  # processes of one machine
FEWEST = 6  # prompts, of fewer than which no direction is told
UNNAMED = "unnamed model"  # of another program, whose name nobody gave
_SHORT = re.compile(r"±\s*(\d*\.?\d+)|(gap|direction|equivalence)")


def _require_definition(value: Any) -> Any:
    """Return `value` if it is ``default`` or the name of a word-map definition; raise an error otherwise."""
    names = [*definitions.names(), "default"]
    if value not in names:
        raise fail(f"expected one of {', '.join(names)}, got {shown(value)}{HINT}: choose one")
    return value


def _refuse_compiling(value: bool | None) -> bool | None:
    """Return false or None; raise an error for true."""
    if value:
        raise fail(
            "expected modules that hooks can read, got true (torch.compile leaves hooks out): take it out"
        )
    return value


Pixels = Annotated[int, Field(ge=8, le=8192)]
Column = Annotated[str, Field(min_length=1)]
Context = Annotated[str, Field(max_length=CHARACTERS), AfterValidator(require_person_placeholder)]
Amount = Annotated[float, Field(ge=-100, le=100)]
Definition = Annotated[
    str, BeforeValidator(_require_definition, json_schema_input_type=Literal[*definitions.names(), "default"])
]


class SeedRange(Section):
    """Seeds of a given number, the first of which is `start`."""

    count: Annotated[int, Field(ge=1, le=IMAGES), option(unit="seeds", example=5)]
    """Number of seeds."""
    start: int = option(0, ge=0, le=2**63 - IMAGES, unit="seed", example=100)
    """First of the seeds."""


_WrittenSeeds = Annotated[
    Annotated[Unique[Seed], Field(min_length=1)]
    | Annotated[SeedRange, AfterValidator(lambda seeds: [*range(seeds.start, seeds.start + seeds.count)])],
    expects("a list of integers or {count: N, start: S}"),
]
Seeds = Annotated[list[int], GetPydanticSchema(lambda _, handler: handler(_WrittenSeeds))]


class Indicator(Section):
    """The word that stands for the person."""

    word: Annotated[Word, option(example="woman")]
    """Word for the person, as prompts have it in the place of {person}."""
    # what it alters are prompts, which are compared with a run's themselves
    plural: Word | None = option(null="the plural by the dictionary", example="women", alters="nothing")
    """Its plural, which goes where a caption has *people*."""
    control: Annotated[bool | str, expects("true (the reference) or the name of an indicator")] = option(
        False, example="feminine", alters="measure"
    )
    """What this word is a synonym of. Differences between synonyms are no bias, so a gap is compared with
    them. `feminine: [woman, lady, female]` writes the same in short."""

    @property
    def forms(self) -> tuple[str, str]:
        """The word for a person and its plural, which is derived from the word if none is configured."""
        return self.word, self.plural or plural(self.word)


class Sampler(Section):
    """How an image is generated."""

    steps: int = option(30, ge=1, le=1000, unit="steps", example=50)
    """Denoising steps of an image. Few steps blur what the model would show; 20 to 50 are usual."""
    guidance_scale: float | None = option(ge=0, unit="factor", null="the model's own", example=7.5)
    """Scale of classifier-free guidance. At 1 there is none; larger values can sharpen a stereotype."""
    true_cfg_scale: float | None = option(ge=0, unit="factor", null="none", example=4)
    """Scale of classifier-free guidance beside guidance that was distilled into the model (FLUX.1). Each step
    then calls the model twice."""
    scheduler: str | None = option(null="the model's own", example="ddim")
    """Scheduler that makes the steps: ddim, euler, dpm, pndm and others."""
    negative_prompt: str = option("", example="blurry")
    """What the images should not show, the same for every word. It takes guidance."""
    noise: Literal["own", "shared", "independent"] = "own"
    """Which images start from the same noise. `own`: those of a prompt and seed; `shared`: those of a seed
    under all prompts; `independent`: none, as with services that take no seed."""
    height: Pixels | None = option(unit="pixels", null="the model's own", example=512)
    """Height of the images. Stay with what the model was trained for."""
    width: Pixels | None = option(unit="pixels", null="the model's own", example=512)
    """Width of the images."""


class Capture(Section):
    """What is read inside the model while it generates."""

    sites: Annotated[
        Literal["default"] | Annotated[list[str], Field(min_length=1)],
        expects("`default` or a list of sites such as [unet.*, latent]"),
    ] = option("default", example=["unet.*", "latent"])
    """Sites inside the model whose activations are compared: addresses and patterns of
    docs/reference/sites.md. Memory and time grow with their number."""
    words: bool = True
    """Whether a map of each word's cross-attention is kept. Without them objects are not put down to
    words."""
    definition: Definition = option("default", example="self-refined")
    """How word maps are made from attention (docs/validation/word_maps.md). `daam`, `decoder-product` and
    `self-refined` are of U-Nets, the others of diffusion transformers. `default`: `daam` or `joint-mass`."""
    keep: list[str] = option([], example=["unet.mid"])
    """Sites whose activations are stored at every step, for autoencoders and analyses of your own."""
    keep_places: Annotated[
        Literal["all", "mean"] | Positive, expects("`all`, `mean` or an integer of at least 1")
    ] = option(16, unit="pixels", example="all")
    """Pixels (or tokens) of each site of `keep` that are stored at each step: so many at random, the same for
    all words of a triplet; their `mean`; or `all`, which can take megabytes a step."""
    keep_dtype: Literal["float32", "float16"] = "float32"
    """Number format of what `keep` stores. float16 refuses activations beyond 65504."""
    keep_limit: float = option(20.0, gt=0, unit="GB", example=200.0, alters="nothing")
    """Most disk that `keep` may take. A run that would take more is refused before it begins."""
    pool: list[str] = option([], example=["unet.*.cross", "text.final"])
    """Sites kept as their mean over space, or over each group of tokens around the word, for `triptych
    decode`."""


class Generate(Section):
    """How the work is divided, in which number format and where."""

    batch_triplets: AutoOrCount = option("auto", unit="triplets", example=4)
    """Triplets that are generated in one batch. `auto`: as many as the device holds; a number gives the same
    last bits on machines of different memory."""
    part_triplets: Positive = option(8, unit="triplets", example=32)
    """Triplets of one stored part, which an interrupted run loses at most."""
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = "auto"
    """Number format of the model. `auto`: float16 on a CUDA device, float32 elsewhere and for the bundled
    models. Where float16 gives black images, take another."""
    offload: Literal["model", "sequential", "group"] | None = option(
        null="all on the device", example="model", alters="nothing"
    )
    """Where weights wait: in the machine's memory, with one network (`model`), one layer (`sequential`) or
    one layer and the next (`group`) on the GPU. For models larger than the GPU; slower, with the same
    images."""
    decoding: Unique[Literal["sliced", "tiled"]] = option([], example=["sliced", "tiled"])
    """How the decoder saves memory: image by image (`sliced`), or large images in tiles with blended edges
    (`tiled`), which alters pixels."""
    compile: Annotated[bool | None, AfterValidator(_refuse_compiling)] = option(null="false", example=False)
    """Refused if true: compiled modules run without the hooks that read them."""
    device: Device = option("auto", example="cuda:1")
    """Where the model runs: auto, cpu, cuda, cuda:1 or mps."""
    workers: Annotated[
        Literal["auto"] | Annotated[int, Field(ge=1, le=WORKERS)],
        expects(f"`auto` or an integer from 1 to {WORKERS}"),
    ] = option("auto", unit="processes", example=2, alters="nothing")
    """Processes of this machine that generate, observe and measure. `auto`: as many as cores and memory
    allow, or one on each GPU. Their number alters no byte of what is stored."""
    # known by the content of its pictures
    from_images: str | None = option(
        null="images start from noise alone", min_length=1, example="portraits", alters="nothing"
    )
    """Picture that images start from, or a folder of pictures, each of which every prompt starts from
    (docs/how_to/image_to_image.md). The level `picture` of a prompt names one."""
    strength: float = option(0.6, gt=0, le=1, unit="share of the steps", example=0.8)
    """How far images leave the picture of `from_images`: share of the steps that are taken from it. At 1
    hardly anything of it is left."""


class Lora(Section):
    """A LoRA that is put into the model when it is loaded."""

    path: Annotated[Model, option(example="style.safetensors", alters="nothing")]
    """A file, a folder that holds one, or a hub id (`owner/name`, `owner/name@revision`)."""
    weight_name: str | None = option(
        min_length=1,
        null="pytorch_lora_weights.safetensors, or the one file that a folder holds",
        example="style.safetensors",
        alters="nothing",
    )
    """File of the folder or hub id."""
    scale: float = option(1.0, ge=-100, le=100, unit="factor", example=0.8)
    """How strongly the LoRA acts."""


class TextualInversion(Section):
    """Trained vectors of a word that the model lacks."""

    path: Annotated[Model, option(example="learned_embeds.safetensors", alters="nothing")]
    """A file, a folder that holds one, or a hub id. Of Stable Diffusion 1, 2 and XL."""
    token: str | None = option(min_length=1, null="the one that the file names", example="<cat-toy>")
    """Word in prompts that stands for them."""


class Quantization(Section):
    """Number formats of fewer bits for the weights, under the names of diffusers' `PipelineQuantizationConfig`."""

    quant_backend: Literal["bitsandbytes_4bit", "bitsandbytes_8bit", "torchao", "gguf"]
    """bitsandbytes (on CUDA devices) and torchao quantize the weights when they are loaded; with `gguf` the
    denoiser is read from `file`, where it is quantized already."""
    quant_kwargs: dict[str, str | bool | int | float | list[str]] = option(
        {}, unit="of the backend", example={"quant_type": "Int8WeightOnlyConfig"}
    )
    """Options of the backend. torchao needs `quant_type`, the name of one of its configurations, which takes
    the others."""
    components_to_quantize: list[str] | None = option(
        min_length=1, null="all networks", example=["transformer"]
    )
    """Components that are quantized; the denoiser alone (`transformer` or `unet`) is usual."""
    file: Model | None = option(null="none", example="flux1-dev-Q4_K_S.gguf", alters="nothing")
    """File that the denoiser is read from, with gguf alone."""

    @model_validator(mode="after")
    def _check_backend_fields(self) -> Quantization:
        """Raise an error for a file without gguf or gguf without one, and for options that gguf does not take."""
        if (self.quant_backend == "gguf") != (self.file is not None):
            got, remedy = ("none", "add it") if self.file is None else (shown(self.file), "take it out")
            expected = "the .gguf file of the denoiser" if self.file is None else "nothing without gguf"
            raise fail(f"expected {expected}, got {got}: {remedy}", at=("file",))
        if self.quant_backend == "gguf" and (self.quant_kwargs or self.components_to_quantize):
            at = "quant_kwargs" if self.quant_kwargs else "components_to_quantize"
            raise fail("expected nothing with gguf, whose file says it, got a value: take it out", at=(at,))
        return self


class Cluster(Section):
    """Workers of a Ray cluster, each of which makes whole parts of a run; none of it alters a byte that is stored."""

    address: str = option(AUTO, pattern=ADDRESS, example="head:6379")
    """Ray workers that generate and observe: auto, local, none or a running Ray as host:port. `auto`: the one
    that runs here or that RAY_ADDRESS names, else `local`, one on this machine for this run."""
    workers: Annotated[
        Literal["auto"] | Annotated[int, Field(ge=1, le=CLUSTER_WORKERS)],
        expects(f"`auto` or an integer from 1 to {CLUSTER_WORKERS}"),
    ] = option(AUTO, unit="workers", example=8)
    """Most workers. `auto`: as many as GPUs, or cores, allow, also those of nodes that join."""
    gpus_per_worker: Annotated[
        Literal["auto"] | Share | Annotated[float, Field(ge=2, le=64, multiple_of=1)],
        expects("`auto`, 0, a share of a GPU such as 0.5 or a number of GPUs"),
    ] = option(AUTO, unit="GPUs", example=0.5)
    """GPUs of a worker. `auto`: one where the cluster has any and the images are not generated on a CPU."""
    cpus_per_worker: int = option(1, ge=1, le=4096, unit="CPUs", example=4)
    """CPUs of a worker."""
    mixed_devices: bool = False
    """Whether workers may have different kinds of GPU or CPU, which differ in the last bits of what they
    generate."""


class Images(Section):
    """Images that another program generated, in place of a model: a folder or a table that says the prompt of each."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True, serialize_by_alias=True)

    from_: Annotated[str, Field(alias="from", min_length=1), option(example="images.csv")]
    """A table of the images (CSV, TSV, JSONL, XLSX, Parquet), or a folder with one, beside triplets.yaml."""
    names: Column | None = option(null="a table says it", example="{prompt}_{indicator}_{seed}")
    """How names of files in a folder say prompt, indicator and seed."""
    image: Column | None = option(
        null="image, file, file_name or path, whichever is there", example="filename"
    )
    """Column of the images' files, relative to the table, or of their bytes in Parquet."""
    prompt: Column = option("prompt", example="caption")
    """Column of the prompt."""
    prompt_id: Column | None = option("prompt_id", example="id")
    """Column of the prompt's id, where several prompts that ask for skills have one text."""
    indicator: Column = option("indicator", example="gender")
    """Column of the indicator. Without it, and without `indicators`, no words are compared."""
    seed: Column | None = option("seed", example=None)
    """Column of the seed; null where images have none and are independent."""
    triplet: Column | None = option("triplet", example="group")
    """Column that says which prompts belong together. Without one: those that differ in the indicator's word
    alone."""
    levels: list[Column] | None = option(
        null="profession, setting, template and model, whichever are there", example=["profession", "setting"]
    )
    """Columns of the prompt's levels, or fields of `names`, of images that have no indicator. Images of one
    text and of the same levels are of one prompt."""
    any_words: bool = False
    """Whether prompts without the word of their indicator are taken."""


class Edit(Section):
    r"""An edit of the model's weights or text states, made when it is loaded.

    With ``keys_and_values`` the states :math:`c` of a word give what :math:`c + \sum_j \alpha_j (a_j - c)` gave before,
    for the words :math:`a_j` with their shares :math:`\alpha_j` in ``words``: Gandikota et al. 2024 (UCE, Eq. 7), and
    without ``keep`` Orgad et al. 2023 (TIME, Eq. 4). What is left of it in contexts that it was not solved from stands
    in ``run.json`` (``left_over_held_out``), which contexts that resemble one another flatter.
    """

    kind: Literal["keys_and_values", "project", "shift"] = "keys_and_values"
    """Keys and values of cross-attentions in closed form (TIME and UCE), or a direction taken out of the
    text's states (`project`) or added to them (`shift`)."""
    words: dict[Word, Annotated[dict[Word, Amount], Field(min_length=1)]] = option(
        {}, unit="share", example={"person": {"woman": 0.25}}
    )
    """For each edited word the words it moves towards, with their shares; 1 is all of that word. With
    `keys_and_values` alone."""
    keep: list[Word] = option([], example=["woman", "man"])
    """Words that the edit must not move. With `keys_and_values` alone."""
    direction: list[Word] | None = option(min_length=2, max_length=2, null="none", example=["woman", "man"])
    """Two words: the direction from the mean states of the first to those of the second. For `project` and
    `shift`."""
    amount: Amount = option(1.0, unit="share", example=-0.5)
    """How much of the direction is taken out (1: all of it) or added."""
    # sentences that go on differently: two that end with the word say nothing of what an edit does where others follow
    contexts: list[Context] = option(
        [
            "a photo of a {person}",
            "a {person} with a dog in the park",
            "a {person} riding a bike on the beach",
            "a {person} sitting at a table in the kitchen",
            "a {person} next to a horse in the snow",
        ],
        min_length=1,
        example=["a photo of a {person}", "a {person} with a dog"],
    )
    """Sentences in which the words' states are taken. An edit of few of them moves words in others."""
    sites: list[str] | None = option(
        min_length=1,
        null="all cross-attentions; text.final with `project` and `shift`",
        example=["unet.mid*"],
    )
    """Addresses or patterns of cross-attentions; with `project` and `shift` also text.final, text.embeddings
    and text.layers.N."""
    parts: list[Literal["key", "value"]] = option(["key", "value"], min_length=1, example=["value"])
    """What is edited."""
    positions: Literal["word", "onward"] = "onward"
    """Tokens whose states are taken: the word's last alone (`word`), or all from there on, which have read
    it."""
    ridge: float = option(0.3, gt=0, unit="mean eigenvalue of the states' second moments", example=1.0)
    """Weight of what holds all other states where they were. With a small one an edit moves words in other
    contexts."""
    keep_weight: float = option(1.0, gt=0, unit="factor", example=2.0)
    """Weight of the words of `keep`."""

    @model_validator(mode="after")
    def _check_kind_fields(self) -> Edit:
        """Raise an error for fields that this kind of edit does not take, and for missing, equal or clashing words."""
        by_words, at, wrong = self.kind == "keys_and_values", "direction", ""
        for name in ("direction", "amount") if by_words else ("words", "keep", "ridge", "keep_weight"):
            if getattr(self, name) != type(self).model_fields[name].default:
                raise fail(f"expected nothing with kind {self.kind}, got a value: take it out", at=(name,))
        if by_words and not self.words:
            at, wrong = "words", "words to edit, as {person: {woman: 0.25}}, found none: add them"
        elif not by_words and self.direction is None:
            wrong = "two words, as [woman, man], found none: add them"
        elif self.direction is not None and self.direction[0] == self.direction[1]:
            wrong = f"two different words, got {shown(self.direction)}: change one"
        elif both := sorted({*self.words} & {*self.keep}):
            at, wrong = "keep", f"words that are not edited, got {shown(both[0])}: take it out"
        if wrong:
            raise fail(f"expected {wrong}", at=(at,))
        return self

    @property
    def named_words(self) -> list[str]:
        """All words named in the edit's `words`, `keep` and `direction`, each once."""
        named = [word for edited, targets in self.words.items() for word in (edited, *targets)]
        return list(dict.fromkeys([*named, *self.keep, *(self.direction or ())]))

    @property
    def summary(self) -> str:
        """One-line summary of this edit of a model: kind, sites, amounts and words.

        >>> Edit(kind="shift", direction=["woman", "man"], amount=-0.5).summary
        'shift at text.final: -0.5 of woman → man'
        """
        if self.direction is not None:
            where = ", ".join(self.sites or ["text.final"])
            return f"{self.kind} at {where}: {self.amount:g} of {' → '.join(self.direction)}"
        where = ", ".join(self.sites or ["all cross-attentions"])
        words = [
            f"{word} → {' + '.join(f'{share:g} {other}' for other, share in shares.items())}"
            for word, shares in self.words.items()
        ]
        kept = f"; kept: {', '.join(self.keep)}" if self.keep else ""
        return f"{self.kind} at {where}: {', '.join(words)}{kept}"


class Stop(Section):
    """A question that ends the run: growing prefixes of the plan are generated until a look at them answers it.

    Intervals of a run that stops hold wherever it stopped (`analysis.stats.confidence_sequences`). The question is
    recorded before the first image, and no other can be asked of the same run.
    """

    question: Literal["gap", "direction", "equivalence", "interval"] = "gap"
    """What is asked of the primary measure and the first contrast: to which side the gap leans (`direction`),
    whether it is smaller than `within` (`equivalence`), either of both (`gap`), or its size to within
    ±`within` (`interval`)."""
    within: float | None = option(
        gt=0,
        unit="of the measure",
        null="`measure.equivalence` of the primary measure, else the least gap that matters of it",
        example=0.05,
    )
    """The gap that would matter, or half the width of the interval that is wanted."""
    fewest: int = option(12, ge=FEWEST, unit="prompts", example=24)
    """Prompts before the first look; all where there are fewer."""
    every: Positive = option(8, unit="prompts", example=24)
    """Prompts from one look to the next, at least one part."""
    order: Literal["random", "listed"] = "random"
    """Order of the prompts. `listed` only where the list is in random order already."""
    seed: Seed = option(0, unit="seed", example=1)
    """Seed of the random order."""
    reach: Literal["run", "measure"] = "run"
    """How much a prompt can differ at most: by no more than the similarities of the prompts before it
    (`run`), or by the whole range of the measure, which always holds and takes more prompts (`measure`)."""


def stop_from_text(text: str) -> dict[str, Any] | None:
    """Return the ``stop`` section for a short text (``--until``) such as ``±0.05`` or ``gap``; None for others.

    >>> stop_from_text("±0.05"), stop_from_text("direction"), stop_from_text("soon")
    ({'question': 'interval', 'within': 0.05}, {'question': 'direction'}, None)
    """
    match = _SHORT.fullmatch(text.strip().replace("+-", "±"))
    if match is None:
        return None
    return {"question": match[2]} if match[2] else {"question": "interval", "within": float(match[1])}
