"""``triplets.yaml``: its schema, with every default in this one place.

Command line over YAML over defaults: :func:`load_config` takes the file and the options given on the
command line and returns one validated :class:`Config`. Nothing is guessed: an unknown key, a key given
twice or a value of another kind than expected is a :class:`~probes.errors.UserError` of one line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from hooks.attention import definitions
from probes import config_checks as checks
from probes.config_checks import prompt_id
from probes.config_messages import message
from probes.config_values import (
    PERSON,
    Alters,
    AutoOrCount,
    AutoOrWorkers,
    Control,
    Definition,
    Device,
    Globs,
    Pixels,
    Positive,
    Prompt,
    Resamples,
    Seed,
    Seeds,
    Share,
    Word,
    fail,
    indicator,
    require_printable,
    shown,
)
from probes.errors import UserError
from probes.paths import expand
from probes.prompts.grids import Grid
from probes.prompts.source import Loaded, PromptSource, resolve
from probes.text.plurals import plural
from probes.yaml_source import YamlSource, read_yaml

__all__ = ["PERSON", "Config", "Indicator", "build_config", "load_config", "prompt_id", "schema_text"]

_Listed = Annotated[list[Prompt], Field(min_length=1)]
# those of {from: ...} take the place of it
Prompts = Annotated[_Listed, BeforeValidator(resolve, json_schema_input_type=_Listed | PromptSource | Grid)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


_Model = TypeVar("_Model", bound=_Section)


class Indicator(_Section):
    """The word that stands for the person. A control is interchangeable with the indicator it names.

    ``true`` names the reference. ``plural`` goes for *people* in captions; nothing (null): by the dictionary.
    """

    word: Word
    # what it alters are prompts, which are held against a run's themselves
    plural: Annotated[Word | None, Alters("nothing")] = None
    control: Annotated[Control, Alters("measure")] = False

    @property
    def forms(self) -> tuple[str, str]:
        """The word and its plural: the one that is said, or the dictionary's.

        Examples
        --------
        >>> Indicator(word="woman").forms, Indicator(word="ze", plural="zem").forms
        (('woman', 'women'), ('ze', 'zem'))
        """
        return self.word, self.plural or plural(self.word)


class Sampler(_Section):
    """How an image is drawn. Nothing (null) means the model's own default."""

    steps: Annotated[int, Field(ge=1, le=1000)] = 30
    guidance_scale: Annotated[float, Field(ge=0)] | None = None
    scheduler: str | None = None
    negative_prompt: str = ""
    noise: Literal["own", "shared"] = (
        "own"  # own: each prompt and seed its own noise; shared: one for each seed
    )
    height: Pixels | None = None
    width: Pixels | None = None


class Capture(_Section):
    """What is read inside the model: sites to compare, word maps, sites whose raw tensors are kept.

    Word maps are made by a definition of `hooks.attention.definitions`.
    """

    sites: Globs = "default"
    words: bool = True
    definition: Definition = definitions.DAAM.name
    keep: list[str] = []


class Generate(_Section):
    """How the work is cut up: triplets with one seed per batch and per part; number format; device; processes.

    ``workers`` processes of this machine draw and look at the images, and measure; ``auto``: as many as cores and
    memory serve, but one that draws or looks on a GPU. Their number alters no byte of what is stored.
    """

    batch_triplets: AutoOrCount = "auto"
    part_triplets: Positive = 8
    dtype: Literal["float32", "float16", "bfloat16"] = "float32"
    device: Device = "auto"
    workers: Annotated[AutoOrWorkers, Alters("nothing")] = "auto"


class Observe(_Section):
    """What looks at the images: tags to search for, a detector for boxes, a segmenter for masks.

    Unless told otherwise toyworld's own detectors look at the bundled specimens' images, for everything they know; the
    engine `toyworld-checker` reads them exactly, by their palette.
    `detector` and `segmenter` are checkpoint files (``groundingdino_swint_ogc.pth``, ``sam_vit_h_4b8939.pth``) or,
    with the engine `transformers`, folders or hub ids; ``toyworld`` names the small ones that come with the package,
    and as a `vocabulary` everything that they know; `tagger` is an open_clip folder or ``ViT-B-32/openai``.
    Wu et al. 2025 state none of the three thresholds.
    """

    objects: Annotated[bool, Alters("measure")] = True
    engine: Literal["auto", "toyworld-checker", "groundingdino", "transformers"] = "auto"
    detector: str | None = None
    segmenter: str | None = None
    text_encoder: str = "bert-base-uncased"
    # none: the prompt's nouns; all that they know for toyworld's own detectors
    tags: Annotated[list[Literal["prompt", "vocabulary", "tagger", "ram"]], Field(min_length=1)] | None = None
    vocabulary: str | None = None
    tagger: str | None = None
    tagger_top: Positive = 10  # tags of the vocabulary that the tagger keeps for an image
    ram: str | None = None
    box_threshold: Share = 0.25
    text_threshold: Share = 0.2
    nms_iou: Share | None = None  # none: 0.5; 0.8 for toyworld's own detector
    batch: Positive = 4
    device: Device = "auto"  # auto: the one the images were drawn on, where there is one


class Measure(_Section):
    """Statistics: resamples, level, seed, the readout of prompt space, and differences that would matter.

    ``equivalence`` gives a metric the size of a gap that would matter (``ssim: 0.02``), to be able to claim none.

    For objects: ``theta`` cuts word maps into masks, a word guides an object of which it covers more than ``sigma``
    (``sigma_human`` where both refer to humans); ``mask_words`` says whose masks can guide, ``nouns`` and ``compounds``
    how nouns are found, and bias scores are shown of objects detected at least ``min_count`` times for a word.
    ``human_words`` says which words refer to humans: the six of Wu et al. 2025 and the run's own indicators
    (``paper``), or every human word that the package lists (``long``).

    ``smallest_effect`` is the smallest gap that would matter, as a share of the distance between the two sides of a
    contrast; ``primary`` names the measure that a run is asked about first (``t``, ``z0``, ``ssim``,
    ``diff_pix``, or another that `analysis.metrics.registry` holds), the others are secondary.
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
    equivalence: dict[str, Annotated[float, Field(gt=0)]] = {}
    smallest_effect: Annotated[float, Field(gt=0, le=1)] = 0.1
    primary: Annotated[str, Field(min_length=1)] = "z0"

    @model_validator(mode="after")
    def _ordered(self) -> Measure:
        if self.sigma_human > self.sigma:
            raise fail(
                f"expected at most sigma ({self.sigma}), got {self.sigma_human}: lower it",
                at=("sigma_human",),
            )
        return self


class Gep(_Section):
    """An audit of attributes (GEP, Zhang et al. 2023), of prompts that have a ``context`` among their levels.

    ``attributes`` are names with their phrases (``dress: in a dress``); none: those that the prompts name, else the
    paper's 15. Estimates are made with ``clip``, one of ``observe.features``: C and CC from the attribute's name without
    its preposition and ``reference``; CLS from classifiers trained on sentences of ``subjects``, phrases and
    ``contexts`` (none: the run's), and ``negative`` sentences (none: the same without the phrase), ``ensemble`` of them
    an attribute.
    """

    attributes: Annotated[dict[Word, Word], Field(min_length=1)] | None = None
    clip: str = "clip"
    reference: str = "an object"
    subjects: Annotated[list[Word], Field(min_length=1)] = ["A man", "A woman", "A person"]
    contexts: Annotated[list[Word], Field(min_length=1)] | None = None
    negative: Annotated[list[Word], Field(min_length=5)] | None = None
    ensemble: Annotated[int, Field(ge=1, le=100)] = 10


class Report(_Section):
    """The page: how many triplets the gallery shows."""

    gallery: Annotated[int, Field(ge=0, le=10_000)] = 24


class Config(_Section):
    """All that ``triplets.yaml`` can say; see the fields of each section for the defaults."""

    name: Annotated[
        str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=100), Alters("nothing")
    ] = "run"
    # a model is known by its content, not by its name
    model: Annotated[str, Field(min_length=1), Alters("nothing")] = "toyworld"
    indicators: dict[
        str, Annotated[Indicator, BeforeValidator(indicator, json_schema_input_type=Word | Indicator)]
    ] = {
        "neutral": Indicator(word="person"),
        "feminine": Indicator(word="woman"),
        "masculine": Indicator(word="man"),
    }
    reference: str = "neutral"
    contrasts: Annotated[list[list[str]] | None, Alters("measure")] = None
    prompts: Annotated[Prompts, Alters("part")]
    limit: Annotated[Positive | None, Alters("part")] = None
    seeds: Annotated[Seeds, Alters("part")] = [0]
    sampler: Sampler = Sampler()
    capture: Capture = Capture()
    generate: Generate = Generate()
    observe: Annotated[Observe, Alters("observe")] = Observe()
    measure: Annotated[Measure, Alters("measure")] = Measure()
    gep: Annotated[Gep, Alters("measure")] = Gep()
    report: Annotated[Report, Alters("report")] = Report()
    out: Annotated[str | None, Alters("nothing")] = None

    @model_validator(mode="before")
    @classmethod
    def _printable(cls, data: Any) -> Any:
        require_printable(data)
        return data

    @model_validator(mode="after")
    def _consistent(self) -> Config:
        checks.check_indicators(self)
        if self.contrasts is None:
            object.__setattr__(self, "contrasts", checks.default_contrasts(self))
        checks.check_contrasts(self)
        checks.check_prompts(self)
        checks.check_size(self)
        return self

    @classmethod
    def stored(cls, resolved: Mapping[str, Any]) -> Config:
        """Return the configuration that a run's record holds; nothing is checked or resolved a second time.

        It was checked when it was written, and what it names (a model, a checkpoint) may be gone since. Fields that are
        missing or null, as in runs of earlier versions, have the schema's default; what such a run drew and compared is
        not guessed: where the record does not say, there is no model, indicator, contrast, prompt or seed.

        Parameters
        ----------
        resolved
            Plain data, as of :meth:`resolved`.

        Raises
        ------
        ValueError
            Something that has fields is no mapping.

        Examples
        --------
        >>> config = Config.stored({"indicators": {"n": {"word": "person"}}, "measure": {"level": 0.9}})
        >>> config.indicators["n"].word, config.measure.level, config.measure.theta, config.contrasts
        ('person', 0.9, 0.35, [])
        """
        values = {"model": "", "reference": "", "contrasts": [], "prompts": [], "seeds": []}
        values |= _said("config", resolved, cls)
        words = values.get("indicators", {})
        if not isinstance(words, Mapping):
            raise ValueError(f"indicators: expected words by their names, got {shown(words)}")
        values["indicators"] = {name: _stored_indicator(name, value) for name, value in words.items()}
        return _stored(cls, values)

    @property
    def out_path(self) -> Path:
        """The run directory: `out`, where ``~`` is the user's home, or ``runs/<name>``."""
        return expand(self.out, "out") if self.out else Path("runs") / self.name

    def resolved(self) -> dict[str, Any]:
        """The configuration as plain data that :meth:`Config.model_validate` takes again."""
        return self.model_dump(mode="json")


def _stored(kind: type[_Model], values: Mapping[str, Any]) -> _Model:
    """A section, or all of the configuration, made of plain data without checks."""
    values = dict(values)
    for name, field in kind.model_fields.items():
        section = field.annotation
        if name in values and isinstance(section, type) and issubclass(section, _Section):
            values[name] = _stored(section, _said(name, values[name], section))
    return kind.model_construct(**values)


def _stored_indicator(name: str, value: Any) -> Indicator:
    """An indicator as a record holds it: a word, or fields of which the word may be missing and is then the name."""
    said = {"word": value} if isinstance(value, str | None) else _said(f"indicators.{name}", value, Indicator)
    return Indicator.model_construct(
        word=said.get("word") or name, control=said.get("control") or False, plural=said.get("plural")
    )


def _said(name: str, values: Any, kind: type[_Section]) -> dict[str, Any]:
    """What plain data says of a place, without what it leaves open and what the section does not know."""
    if not isinstance(values, Mapping):
        raise ValueError(f"{name}: expected fields, got {shown(values)}")
    return {key: values[key] for key in kind.model_fields if values.get(key) is not None}


def load_config(
    path: str | Path,
    options: Mapping[tuple[str, ...], tuple[str, Any]] | None = None,
    said: list[Loaded] | None = None,
) -> Config:
    """Read ``triplets.yaml`` and put the command line's options over it.

    Parameters
    ----------
    path
        The YAML file.
    options
        What the command line gave: ``{("sampler", "steps"): ("--steps", 50)}``.
    said
        Takes what became of the captions where prompts come from some.

    Raises
    ------
    UserError
        The first fault found: place, rule, what was found, remedy.
    """
    source = read_yaml(path)
    if not isinstance(source.data, dict):
        raise UserError(
            f"{source.name}: expected `key: value` lines, got {shown(source.data)}: see triplets.yaml"
        )
    context = {"folder": Path(path).parent, "said": [] if said is None else said}
    return build_config({"name": Path(path).stem, **source.data}, source, options, context)


def schema_text() -> str:
    """Return the JSON schema of ``triplets.yaml``, by which editors complete and check it.

    What hangs on several fields at once (contrasts of indicators that are there, say) is beyond it.
    """
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Config.model_json_schema()}
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def build_config(
    data: Mapping[str, Any],
    source: YamlSource,
    options: Mapping[tuple[str, ...], tuple[str, Any]] | None = None,
    context: Mapping[str, Any] | None = None,
) -> Config:
    """Validate plain data with the command line's options over it (see :func:`load_config`).

    `context` is that of `probes.prompts.source.resolve`.
    """
    options = dict(options or {})
    merged: dict[str, Any] = {
        key: dict(value) if isinstance(value, dict) else value for key, value in data.items()
    }
    for loc, (_, value) in options.items():
        section = merged
        for key in loc[:-1]:
            if not isinstance(section.get(key), dict):
                section[key] = {}
            section = section[key]
        section[loc[-1]] = value
    try:
        return Config.model_validate(merged, context=context)
    except ValidationError as error:
        raise UserError(message(error, Config, source, options)) from None
