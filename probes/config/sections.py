"""Sections of ``triplets.yaml`` with every default of theirs; larger ones stand in the ``*_options.py`` beside this."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from probes.fields.types import (
    ADDRESS,
    Alters,
    AutoOrCount,
    AutoOrWorkers,
    Control,
    Definition,
    Device,
    Globs,
    Pixels,
    Positive,
    Section,
    Share,
    Word,
    option,
    takes,
)
from probes.prompts.grammar.english import plural

CLUSTER_WORKERS = 100_000
AUTO, LOCAL, NONE = "auto", "local", "none"  # addresses of a cluster
MOST_TRIPLETS = 10_000  # of which a report shows every one where it is not asked to


class Indicator(Section):
    """The word that stands for the person."""

    word: Annotated[Word, option(example="woman")]
    """The word for the person, as prompts have it in the place of {person}."""
    # what it alters are prompts, which are compared with a run's themselves
    plural: Annotated[
        Word | None, option(null="the plural by the dictionary", example="women"), Alters("nothing")
    ] = None
    """The word's plural, which goes where a caption has *people*. Give it for a word that the dictionary does
    not know."""
    control: Annotated[Control, option(example="feminine"), Alters("measure")] = False
    """Whether this word is a synonym of another one: true for the reference, or the name of an indicator. What
    synonyms make different is variation between words and no bias, so a gap is held against it; three words a
    side are enough to tell. `feminine: [woman, lady, female]` writes the same in short."""

    @property
    def forms(self) -> tuple[str, str]:
        """The word and its plural: the one that is given, or the dictionary's."""
        return self.word, self.plural or plural(self.word)


class Sampler(Section):
    """How an image is generated."""

    steps: Annotated[int, Field(ge=1, le=1000), option(unit="steps", example=50)] = 30
    """Denoising steps of an image. Time grows with it; 20 to 50 are usual, and few steps blur what the model
    would show."""
    guidance_scale: Annotated[
        Annotated[float, Field(ge=0)] | None, option(unit="factor", null="the model's own", example=7.5)
    ] = None
    """Scale of classifier-free guidance. At 1 there is none; larger values follow the prompt more closely and
    can sharpen a stereotype."""
    true_cfg_scale: Annotated[
        Annotated[float, Field(ge=0)] | None, option(unit="factor", null="none", example=4)
    ] = None
    """Scale of classifier-free guidance beside guidance that was distilled into the model (FLUX.1), against the
    negative prompt or an empty one. Each step then calls the model twice. Other models take `guidance_scale`
    alone."""
    scheduler: Annotated[str | None, option(null="the model's own", example="ddim")] = None
    """The scheduler that makes the steps: ddim, euler, dpm, pndm and others. Name one to compare models under
    the same sampler."""
    negative_prompt: Annotated[str, option(example="blurry")] = ""
    """What the images should not show, the same for every word. It takes guidance, and may not name a gender
    unless that is what you study."""
    noise: Literal["own", "shared", "independent"] = "own"
    """Which images start from the same noise. `own`: each prompt and seed has its own, shared by the words of a
    triplet, so that only the word differs; `shared`: one noise for each seed under all prompts; `independent`:
    each image has its own, as with services that take no seed."""
    height: Annotated[Pixels | None, option(unit="pixels", null="the model's own", example=512)] = None
    """Height of the images. Stay with what the model was trained for, or it draws people twice."""
    width: Annotated[Pixels | None, option(unit="pixels", null="the model's own", example=512)] = None
    """Width of the images. Stay with what the model was trained for."""


class Capture(Section):
    """What is read inside the model while it generates."""

    sites: Annotated[Globs, option(example=["unet.*", "latent"])] = "default"
    """Sites inside the model whose activations are compared: `default`, or addresses and patterns of
    docs/reference/sites.md. Name more to see finer layers; memory and time grow with their number."""
    words: bool = True
    """Whether a map of each word's cross-attention is kept. Without them objects are not put down to words;
    turn them off to save disk."""
    definition: Annotated[Definition, option(example="self-refined")] = "default"
    """How word maps are made from attention probabilities (docs/validation/word_maps.md). `daam` is that of
    Tang et al. 2023; `decoder-product` and `self-refined` trade coverage for sharpness: all three are of
    U-Nets. Of diffusion transformers `joint-mass` is the attention paid a word, `joint-share` that over what is
    paid all the text, `output-space` ConceptAttention's. `default`: `daam` and `joint-mass`."""
    keep: Annotated[list[str], option(example=["unet.mid"])] = []
    """Sites whose activations are stored at every step, for autoencoders and analyses of your own. How much of
    each is said by `keep_places`."""
    keep_places: Annotated[
        Annotated[Literal["all", "mean"] | Positive, takes("`all`, `mean` or an integer of at least 1")],
        option(unit="pixels", example="all"),
    ] = 16
    """Pixels (or tokens) of each site of `keep` that are stored of an image at each step: so many, drawn at
    random, the same for all words of a triplet and seed; their `mean`; or `all`, the tensor as it is, which can
    take megabytes a step."""
    keep_dtype: Literal["float32", "float16"] = "float32"
    """Number format of what `keep` stores. float16 takes half the disk; activations beyond 65504 are
    refused."""
    keep_limit: Annotated[
        Annotated[float, Field(gt=0)], option(unit="GB", example=200.0), Alters("nothing")
    ] = 20.0
    """Most disk that `keep` may take. A run that would take more is refused before it begins; raise it where
    there is room."""
    pool: Annotated[list[str], option(example=["unet.*.cross", "text.final"])] = []
    """Sites kept as their mean over space, or over each group of tokens around the word. `triptych decode`
    reads them to ask where gender can be decoded."""


class Generate(Section):
    """How the work is divided, in which number format and where."""

    batch_triplets: Annotated[AutoOrCount, option(unit="triplets", example=4)] = "auto"
    """Triplets that are generated in one batch. `auto`: as many as the device holds comfortably; name a number
    for the same last bits on machines of different memory."""
    part_triplets: Annotated[Positive, option(unit="triplets", example=32)] = 8
    """Triplets of one stored part. A run that is interrupted loses at most the part it was at."""
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = "auto"
    """Number format of the model. `auto`: float16 on a CUDA device, float32 elsewhere and for the bundled
    models; take float32 or bfloat16 where float16 gives black images."""
    device: Annotated[Device, option(example="cuda:1")] = "auto"
    """Where the model runs: auto, cpu, cuda, cuda:1 or mps. `auto` takes a GPU where there is one."""
    workers: Annotated[AutoOrWorkers, option(unit="processes", example=2), Alters("nothing")] = "auto"
    """Processes of this machine that generate, observe and measure. `auto`: as many as cores and memory allow,
    and one on a GPU; their number alters no byte of what is stored."""


class Cluster(Section):
    """Workers of a Ray cluster, each of which makes whole parts of a run; none of it alters a byte that is stored."""

    address: Annotated[str, Field(pattern=ADDRESS), option(example="head:6379")] = AUTO
    """Ray workers that generate and observe: auto, local, none or a running Ray as host:port. `auto` takes the
    one that runs here or that RAY_ADDRESS names, else as `local`, which starts one on this machine for the run;
    `none` switches a cluster off."""
    workers: Annotated[
        Annotated[
            Literal["auto"] | Annotated[int, Field(ge=1, le=CLUSTER_WORKERS)],
            takes(f"`auto` or an integer from 1 to {CLUSTER_WORKERS}"),
        ],
        option(unit="workers", example=8),
    ] = AUTO
    """Most workers. `auto`: as many as GPUs, or cores, allow, also those of nodes that join."""
    gpus_per_worker: Annotated[
        Annotated[
            Literal["auto"] | Share | Annotated[float, Field(ge=2, le=64, multiple_of=1)],
            takes("`auto`, 0, a share of a GPU such as 0.5 or a number of GPUs"),
        ],
        option(unit="GPUs", example=0.5),
    ] = AUTO
    """GPUs of a worker. `auto`: one where the cluster has any and the images are not generated on a CPU; take a
    share to put two workers on one GPU."""
    cpus_per_worker: Annotated[int, Field(ge=1, le=4096), option(unit="CPUs", example=4)] = 1
    """CPUs of a worker."""
    mixed_devices: bool = False
    """Whether workers may have different kinds of GPU or CPU. They differ in the last bits of what they
    generate; run.json then says which there were."""


class Report(Section):
    """The page."""

    gallery: Annotated[int, Field(ge=0, le=10000), option(unit="triplets", example=100)] = 24
    """Triplets that the report's gallery shows. Each takes some 40 KB of the page."""
    all_triplets: Annotated[
        Annotated[Literal["auto"] | bool, takes("`auto`, true or false")], option(example=True)
    ] = "auto"
    """Whether `gallery/` is written beside the report, which shows every triplet. Each takes at most 40 KB, and
    its images are decoded. `auto`: in a run of up to 10,000 triplets, each seed counted."""
    figures: bool = True
    """Whether figures are drawn, on the page and under `figures/`. Without them a report takes a fraction of
    the time; its sentences and tables are the same."""

    def shows_all(self, triplets: int) -> bool:
        """Return whether `gallery/` is written of a run of so many triplets, each seed counted."""
        return triplets <= MOST_TRIPLETS if self.all_triplets == "auto" else self.all_triplets
