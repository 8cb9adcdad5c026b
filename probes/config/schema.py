"""``triplets.yaml``: its schema, and configurations of a file and the command line, which lies over it.

Nothing is guessed: an unknown key, a key given twice or a value of another kind than expected is a
:class:`~probes.errors.UserError` of one line (place, rule, what was found, remedy), the first that is found. Sections
with their defaults stand in `generation`, `observation` and `measurement` beside this.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import yaml
from pydantic import BeforeValidator, Field, ValidationError, ValidationInfo, model_validator
from pydantic.fields import FieldInfo

from probes.config import checks
from probes.config.generation import (
    FEWEST,
    Capture,
    Cluster,
    Edit,
    Generate,
    Images,
    Indicator,
    Lora,
    Quantization,
    Sampler,
    Seeds,
    Stop,
    TextualInversion,
)
from probes.config.measurement import DallEval, Gep, Measure, Report, Skills, Trace
from probes.config.observation import Observe
from probes.errors import UserError
from probes.fields.types import (
    FLAVOUR,
    HINT,
    IMAGES,
    NAME,
    Model,
    Positive,
    Section,
    Word,
    expects,
    fail,
    option,
    require_printable,
    shown,
    text_remedy,
    types_in,
)
from probes.fields.yaml import Options, YamlSource, error_line, locate_errors, read_yaml, yaml_text
from probes.paths import display_name, expand, expand_run
from probes.prompts.pictures import add_pictures
from probes.prompts.prompt import SKILL, check_prompts, from_written
from probes.prompts.source import Prompts, prompt_defaults

STAGES = ("generate", "observe", "trace", "measure", "report")  # of a run, in their order
_STRENGTH = ("generate", "strength")
INDICATORS = 40  # every pair of them is compared at every site and step

ImageReader = Callable[..., Mapping[str, Any]]  # `complete_configuration` of `probes.stages.external_images`
Preset = Literal[*checks.PRESETS]  # type: ignore[valid-type]
_Word = Annotated[Word | Indicator, expects("a word, or {word: ..., plural: ...}")]
_INDICATOR = "a word, a list of a word and its synonyms, or {word: ..., control: true}"
_Words = Annotated[Word | Indicator | Annotated[list[_Word], Field(min_length=1)], expects(_INDICATOR)]


def _indicator_fields(value: Any) -> Any:
    """Return the fields of an indicator: ``{"word": value}`` for a text, else `value`; an error for other types."""
    if not isinstance(value, str | Mapping | Indicator):
        raise fail(f"expected {_INDICATOR}, got {shown(value)}{HINT}: {text_remedy(value)}")
    return {"word": value} if isinstance(value, str) else value


class Config(Section):
    """All that ``triplets.yaml`` can say."""

    name: str = option("run", pattern=NAME, max_length=100, example="first-light", alters="nothing")
    """Name of the run, in its report and its folder."""
    preset: Preset | None = option(null="none", example="wu2025", alters="nothing")
    """Settings of a publication, under those that are written here; `wu2025`: those of Wu et al. 2025."""
    # a model is known by its content, not by its name
    model: Model = option("toyworld", example="CompVis/stable-diffusion-v1-4", alters="nothing")
    """The model that generates: a bundled one (toyworld, toyworld-mirror, -null, -dit and -work among them), a hub
    id, a folder, or a .safetensors or .ckpt file. See docs/how_to/models.md."""
    revision: str | None = option(min_length=1, null="the default branch", example="main", alters="nothing")
    """Branch, tag or commit of a model of the hub. run.json keeps the commit in any case."""
    variant: str | None = option(
        pattern=FLAVOUR, null="full precision where it is there", example="fp16", alters="nothing"
    )
    """Weights of a folder or hub model that are called so. fp16 is half the download."""
    # what is put into a model is known by its content, too (`probes.models.source.Source.file_digests`)
    lora: list[Lora] = option([], example=[{"path": "style.safetensors", "scale": 0.8}], alters="nothing")
    """LoRAs that are put into the model, in this order (docs/how_to/models.md). Another file or scale is
    another run."""
    textual_inversion: list[TextualInversion] = option(
        [], example=[{"path": "learned_embeds.safetensors", "token": "<cat-toy>"}], alters="nothing"
    )
    """Words that are added to the text encoder, for use in prompts."""
    vae: Model | None = option(null="the model's own", example="stabilityai/sd-vae-ft-mse", alters="nothing")
    """Decoder in place of the model's own: a folder of diffusers or a hub id."""
    quantization: Quantization | None = option(
        null="as the weights are stored",
        example={"quant_backend": "torchao", "quant_kwargs": {"quant_type": "Int8WeightOnlyConfig"}},
    )
    """Weights of fewer bits (docs/how_to/models.md). A folder that is quantized already needs no key."""
    edit: Edit | None = option(null="nothing", example={"words": {"person": {"woman": 0.25}}})
    """Edit of the model once it is loaded (docs/validation/mitigation.md)."""
    indicators: dict[
        str, Annotated[Indicator, BeforeValidator(_indicator_fields, json_schema_input_type=_Words)]
    ] = option(
        {
            "neutral": Indicator(word="person"),
            "feminine": Indicator(word="woman"),
            "masculine": Indicator(word="man"),
        },
        max_length=INDICATORS,
        example={"neutral": ["person", "human"], "feminine": ["woman", "lady"], "masculine": ["man", "male"]},
    )
    """Words for the person by names of your own: the reference and the sides that are compared with it. A
    list is a word with its synonyms, the controls of that side; take three words a side. With one indicator,
    or none and plain prompts, no words are compared."""
    reference: str = option("neutral", example="neutral")
    """Indicator to whose images those of all others are compared."""
    contrasts: list[list[str]] | None = option(
        null="every pair of indicators that are neither the reference nor a synonym of another",
        example=[["masculine", "feminine"]],
        alters="measure",
    )
    """Pairs of indicators. A gap is how much nearer the reference is to the first than to the second."""
    # known by the prompts and the content of its images
    images: Images | None = option(
        null="none: the model generates", example={"from": "images.csv"}, alters="nothing"
    )
    """Images of another program, measured in place of a model (docs/how_to/foreign_images.md)."""
    prompts: Annotated[
        Prompts, option(example=["a {person} riding a bike", "a {person} in a hat"], alters="part")
    ]
    """Texts with {person} where the word goes, a text for each indicator, or plain texts that compare no
    words, each with levels of your own (`{text: ..., profession: nurse}`); or a form below
    (docs/how_to/prompts.md). Intervals are over prompts: take at least 24."""
    limit: Positive | None = option(unit="prompts", null="all", example=4, alters="part")
    """Only the first so many prompts."""
    seeds: Seeds = option([0], unit="seed", example=[0, 1, 2], alters="part")
    """Seeds of the noise of every prompt. More seeds say more of each prompt, more prompts more of the
    model."""
    stop: Stop | None = option(
        null="all images are drawn", example={"question": "interval", "within": 0.05}, alters="part"
    )
    """Question that ends the run as soon as it is answered (docs/how_to/stopping.md). `{}` takes all
    defaults."""
    sampler: Sampler = option(Sampler(), example={"steps": 20})
    """Steps, guidance, noise and size of an image."""
    capture: Capture = option(Capture(), example={"sites": ["unet.*", "latent"]})
    """Sites and word maps that are kept."""
    generate: Generate = option(Generate(), example={"workers": 2})
    """Batches, parts, number format, device and processes."""
    cluster: Cluster | None = option(
        null="no cluster, the processes of this machine", example={"address": "auto"}, alters="nothing"
    )
    """Ray cluster whose workers generate and observe (docs/how_to/clusters.md)."""
    observe: Observe = option(Observe(), example={"objects": False}, alters="observe")
    """Networks that observe the images, and what they look for."""
    trace: Trace | None = option(
        null="nothing is traced", example={"sites": ["unet.*.cross"]}, alters="trace"
    )
    """Activation patching: which place inside the model makes the difference (docs/how_to/trace.md). `{}`
    takes all defaults."""
    measure: Measure = option(Measure(), example={"primary": "ssim"}, alters="measure")
    """Resamples, levels, thresholds, and the gap that would matter."""
    gep: Gep = option(Gep(), example={"ensemble": 1}, alters="measure")
    """Audit of attributes by prompts with contexts."""
    dalleval: DallEval = option(DallEval(), example={"tone": "ciede2000"}, alters="measure")
    """Audit of professions."""
    skills: Skills = option(Skills(), example={"count": "at_least"}, alters="measure")
    """Audit of visual skills."""
    report: Report = option(Report(), example={"gallery": 100}, alters="report")
    """Gallery and figures."""
    out: str | None = option(null="runs/NAME", example="runs/first-light", alters="nothing")
    """Run directory."""

    if not TYPE_CHECKING:  # who checks types reads the fields

        def __init__(self, /, **data: Any) -> None:
            """Validate keyword arguments, the keys of ``triplets.yaml``; raises `UserError` for the first fault."""
            try:
                super().__init__(**data)
            except ValidationError as error:
                raise UserError(error_line(error, type(self), YamlSource("Config", "", data), {})) from None

        # of one that is marked as pydantic's own, pydantic validates files as before, with their context
        __init__.__pydantic_base_init__ = True

    @model_validator(mode="before")
    @classmethod
    def _expand_shorthand(cls, data: Any, info: ValidationInfo) -> Any:
        """Return configuration data with preset, synonyms and the defaults that prompts imply, before validation."""
        require_printable(data)
        if not isinstance(data, Mapping):
            return data
        reference, context = cls.model_fields["reference"].default, info.context or {}
        data = checks.expand_synonyms(checks.apply_preset(data) if "preset" in data else data, reference)
        return prompt_defaults(data, reference, Path(context.get("folder", "")), context.get("loaded", []))

    @model_validator(mode="after")
    def _check_consistency(self, info: ValidationInfo) -> Config:
        """Check fields against each other, raising an error at conflicts; resolve contrasts and order the prompts."""
        self._resolve_pictures(Path((info.context or {}).get("folder", "")))
        checks.check_indicators(self.indicators, self.reference)
        contrasts = checks.resolve_contrasts(self.contrasts, self.indicators, self.reference)
        object.__setattr__(self, "contrasts", contrasts)
        by_levels = self.images is not None or self.generate.from_images is not None
        check_prompts(self.prompts, list(self.indicators), by_levels=by_levels)
        if any(SKILL in prompt.levels for prompt in self.prompts):
            from probes.prompts import paintskills

            paintskills.check_skill_prompts(self.prompts, list(self.indicators))
        used_prompts = self.prompts[: self.limit]
        if self.stop is not None:
            self._check_stop()
            ordered = checks.order_prompts(used_prompts, self.stop)
            object.__setattr__(self, "prompts", [*ordered, *self.prompts[len(used_prompts) :]])
        prompts, seeds = len(used_prompts), len(self.seeds)
        images = prompts * seeds * len(self.indicators)
        if self.images is None and images > IMAGES:  # else they are there already
            raise fail(
                f"expected at most {IMAGES} images, got {images} (prompts x seeds x indicators):"
                " take fewer, or several runs",
                at=("seeds",) if seeds > prompts else ("prompts",),
            )
        return self

    def _resolve_pictures(self, folder: Path) -> None:
        """Make the path of pictures to start from absolute, and put them into the prompts; an error if none fits."""
        generate, steps = self.generate, self.sampler.steps
        if generate.from_images is None:
            if generate.strength != Generate.model_fields["strength"].default:
                raise fail("expected `from_images` beside it, got none: add it, or take it out", at=_STRENGTH)
            return
        if int(steps * generate.strength) < 1:
            raise fail(
                f"expected at least one of {steps} steps, got {generate.strength:g} of them: raise it, or the steps",
                at=_STRENGTH,
            )
        path = expand(generate.from_images, "generate.from_images", folder).absolute()
        resolved = generate.model_copy(update={"from_images": str(path)})
        object.__setattr__(self, "generate", resolved)
        object.__setattr__(self, "prompts", add_pictures(self.prompts, path))

    def _check_stop(self) -> None:
        """Raise an error if a run cannot stop early: external images, no contrast, shared noise, or too few prompts."""
        wrong = None
        if self.images is not None:
            wrong = "images that this run draws, got those of another program: leave it out"
        elif not self.contrasts:
            wrong = "words that are compared, got no contrast: give three indicators, or leave it out"
        elif self.sampler.noise == "shared":
            wrong = "prompts that are independent, got `sampler.noise: shared`: take `own`, or leave it out"
        elif (prompts := len(self.prompts[: self.limit])) < FEWEST:
            wrong = f"at least {FEWEST} prompts, got {prompts}: give more, or leave it out"
        if wrong:
            raise fail(f"expected {wrong}", at=("stop",))

    @classmethod
    def stored(cls, values: Mapping[str, Any]) -> Config:
        """Return a configuration from its data in ``run.json``, unvalidated; missing essential fields are empty."""
        values = {"model": "", "reference": "", "indicators": {}, "contrasts": [], "seeds": [], **values}
        return super().stored({**values, "prompts": [*map(from_written, values.get("prompts", ()))]})

    @property
    def clustered(self) -> bool:
        """Whether the workers of a Ray cluster generate and observe the images."""
        return self.cluster is not None and self.cluster.address != "none"

    @property
    def unit(self) -> str:
        """Independent unit of intervals and p-values: ``seed`` for one prompt with several seeds, else ``prompt``."""
        return "seed" if len(self.prompts[: self.limit]) == 1 < len(self.seeds) else "prompt"

    @property
    def paired(self) -> bool:
        """Whether images of a triplet and seed start from the same noise (external ones: whether they have seeds)."""
        return self.images.seed is not None if self.images else self.sampler.noise != "independent"

    @property
    def model_name(self) -> str:
        """Model name for pages and tables: as configured, or the last path component of a file or folder."""
        return self.model if self.images is not None else display_name(self.model)

    @property
    def compares(self) -> bool:
        """Whether the run has at least two indicators, whose images are compared with each other."""
        return len(self.indicators) > 1

    @property
    def out_path(self) -> Path:
        """Run directory: `out` with ``~`` expanded, or ``runs/<name>`` if `out` is not set."""
        return expand_run(self.out, "out") if self.out else Path("runs") / self.name

    def _repr_html_(self) -> str:
        """HTML for notebooks: the fields that differ from their defaults, as YAML."""
        return f"<pre>{html.escape(yaml_text(self.model_dump(mode='json', exclude_defaults=True)))}</pre>"

    def resolved(self) -> dict[str, Any]:
        """Return the whole configuration as plain data, which :meth:`Config.model_validate` accepts."""
        return self.model_dump(mode="json")


def schema_text() -> str:
    """Return the JSON schema of ``triplets.yaml`` as text, for completion and checks in editors.

    Rules between fields (that contrasts name existing indicators, say) are not in it.
    """
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Config.model_json_schema()}
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def load_config(
    path: str | Path, options: Options | None = None, read_images: ImageReader | None = None
) -> Config:
    """Return the configuration in a YAML file, with command-line options over it (see `build_config`)."""
    source = read_source(path)
    if source.data.get("images") is not None and read_images is None:
        raise UserError(f"{source.name}: images: expected a model that generates, got images: name a model")
    data = {"name": Path(path).stem, **source.data}
    return build_config(data, source, options, {"folder": Path(path).parent}, read_images)


def read_source(path: str | Path) -> YamlSource:
    """Return the parsed YAML file of a configuration; raises `UserError` if it is no mapping."""
    source = read_yaml(path)
    if not isinstance(source.data, dict):
        raise UserError(
            f"{source.name}: expected `key: value` lines, got {shown(source.data)}: see triplets.yaml"
        )
    return source


def build_config(
    data: Mapping[str, Any],
    source: YamlSource,
    options: Options | None = None,
    context: Mapping[str, Any] | None = None,
    read_images: ImageReader | None = None,
) -> Config:
    """Return the validated configuration of `data` with command-line options over it; a `UserError` names `source`.

    `options` are as ``{("sampler", "steps"): ("--steps", 50)}``. `context` is that of `prompt_defaults`: ``folder``,
    where relative paths begin, and ``loaded``. `read_images` puts what the rows of ``images:`` say in place.
    """
    options, merged = dict(options or {}), dict(data)
    with locate_errors(Config, source, options):
        if read_images is not None:
            if ("images",) in options:  # they say what other fields are
                merged["images"] = options.pop(("images",))[1]
            if merged.get("images") is not None:
                merged = dict(read_images(merged, source, options, context, build_config))
        for loc, (_, value) in options.items():
            section = merged
            for key in loc[:-1]:
                inner = section.get(key)
                section[key] = dict(inner) if isinstance(inner, Mapping) else {}
                section = section[key]
            section[loc[-1]] = value
        try:
            return Config.model_validate(merged, context=context)
        except ValidationError as error:
            raise UserError(error_line(error, Config, source, options)) from None


def field_at(path: str) -> FieldInfo:
    """Return the pydantic field of a configuration key by its dotted path, such as ``sampler.steps``."""
    section, _, name = path.rpartition(".")
    return (types_in(field_at(section).annotation, Section)[0] if section else Config).model_fields[name]


def flag_help(path: str) -> str:
    """Return the ``--help`` text of a key by its dotted path: first sentence of its docs, unit, default, example.

    >>> flag_help("sampler.steps")
    'Denoising steps of an image (steps; default: 30; for example 50)'
    """
    field = field_at(path)
    owner = field_at(path.rpartition(".")[0]) if "." in path else field
    absent = owner if owner.default is None else field  # a section that is not there by default
    default = absent.json_schema_extra["null"] if absent.default is None else flow_text(absent.default)
    facts = [(field.json_schema_extra or {}).get("unit"), f"default: {default}"]
    for example in field.examples or ():
        facts.append(re.sub(r"[][,']", "", f"for example {flow_text(example)}"))
    summary = re.split(r"\.\s+(?=[A-Z`])", " ".join(field.description.split()))[0].removesuffix(".")
    return f"{summary} ({'; '.join(filter(None, facts))})"


def flow_text(value: Any) -> str:
    """Return plain data as YAML on one line.

    >>> flow_text({"count": 3}), flow_text(["a {person}", 0.5]), flow_text(None), flow_text(True)
    ('{count: 3}', "['a {person}', 0.5]", 'null', 'true')
    """
    return yaml.safe_dump(
        [value], default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**6
    ).strip()[1:-1]
