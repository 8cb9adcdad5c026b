"""``triplets.yaml``: its schema, with every default in this one place.

Command line over YAML over defaults: :func:`load_config` takes the file and the options given on the
command line and returns one validated :class:`Config`. Nothing is guessed: an unknown key, a key given
twice or a value of another kind than expected is a :class:`~probes.errors.UserError` of one line.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from hooks import definitions
from probes.errors import UserError
from probes.yaml_source import YamlSource, read_yaml, show

PERSON = "{person}"


def _fail(message: str, **context: Any) -> PydanticCustomError:
    # braces are pydantic's own placeholders: hand the text over as one
    return PydanticCustomError("triptych", "{message}", {"message": message, **context})


def _found(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def _control(value: Any) -> Any:
    if isinstance(value, (bool, str)):
        return value
    raise _fail(f"expected true (the reference) or the name of an indicator, got {_found(value)}@: name one")


class Indicator(_Section):
    """The word that stands for the person. A control is interchangeable with the indicator it names.

    ``true`` names the reference.
    """

    word: Annotated[str, Field(min_length=1, max_length=200)]
    control: Annotated[bool | str, BeforeValidator(_control)] = False


def _indicator(value: Any) -> Any:
    if isinstance(value, (Indicator, Mapping)):
        return value
    if not isinstance(value, str):
        raise _fail(f"expected a word, or {{word: ..., control: true}}, got {_found(value)}@: quote it")
    return {"word": value}


def _prompt(value: Any) -> Any:
    if isinstance(value, Mapping):
        for key, text in value.items():
            if not isinstance(text, str) or not text.strip():
                raise _fail(f"expected a text for `{key}`, got {_found(text)}@: quote it", at=(key,))
        return dict(value)
    if not isinstance(value, str):
        raise _fail(f"expected a text with one {PERSON}, got {_found(value)}@: quote it")
    if value.count(PERSON) != 1:
        count = value.count(PERSON) or "none"
        raise _fail(
            f"expected a text with one {PERSON}, got {count} in {_found(value)}: write it where the word goes"
        )
    if re.search(r"[{}]", value.replace(PERSON, "")):
        raise _fail(f"expected no braces but {PERSON}, got {_found(value)}: take them out")
    return value


def _seeds(value: Any) -> Any:
    if isinstance(value, Mapping):
        unknown = set(value) - {"count", "start"}
        count, start = value.get("count"), value.get("start", 0)
        if unknown or type(count) is not int or type(start) is not int or count < 1:
            raise _fail(
                f"expected a list of integers or {{count: N, start: S}}, got {_found(dict(value))}:"
                " write whole numbers"
            )
        return list(range(start, start + count))
    if not isinstance(value, list):
        raise _fail(f"expected a list of integers, got {_found(value)}@: write it as [0, 1]")
    for index, seed in enumerate(value):
        if type(seed) is not int:
            raise _fail(f"expected an integer, got {_found(seed)}@: write a whole number", at=(index,))
        if not 0 <= seed < 2**63:
            raise _fail(f"expected an integer from 0 to 2^63 - 1, got {seed}: choose another", at=(index,))
        if seed in value[:index]:
            raise _fail(f"seed {seed} stands twice: keep one", at=(index,))
    return value


def _default_or_globs(value: Any) -> Any:
    if value == "default" or (
        isinstance(value, list) and value and all(isinstance(item, str) for item in value)
    ):
        return value
    raise _fail(
        f"expected `default` or a list of sites such as [unet.*, latent], got {_found(value)}: list them"
    )


def _auto_or_count(value: Any) -> Any:
    if value == "auto" or (type(value) is int and value >= 1):
        return value
    raise _fail(f"expected `auto` or an integer of at least 1, got {_found(value)}@: choose one of them")


def _definition(value: Any) -> Any:
    if value in definitions.names():
        return value
    raise _fail(f"expected one of {', '.join(definitions.names())}, got {_found(value)}@: choose one")


Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]


class Sampler(_Section):
    """How an image is drawn. Nothing (null) means the model's own default."""

    steps: Annotated[int, Field(ge=1, le=1000)] = 30
    guidance_scale: Annotated[float, Field(ge=0)] | None = None
    scheduler: str | None = None
    negative_prompt: str = ""
    noise: Literal["own", "shared"] = (
        "own"  # own: each prompt and seed its own noise; shared: one for each seed
    )
    height: Positive | None = None
    width: Positive | None = None


class Capture(_Section):
    """What is read inside the model: sites to compare, word maps by a definition of `hooks.definitions`, sites whose
    raw tensors are kept."""

    sites: Annotated[Literal["default"] | list[str], BeforeValidator(_default_or_globs)] = "default"
    words: bool = True
    definition: Annotated[str, BeforeValidator(_definition)] = definitions.DAAM.name
    keep: list[str] = []


class Generate(_Section):
    """How the work is cut up: triplets with one seed per batch and per part; number format; device."""

    batch_triplets: Annotated[int | Literal["auto"], BeforeValidator(_auto_or_count)] = "auto"
    part_triplets: Positive = 8
    dtype: Literal["float32", "float16", "bfloat16"] = "float32"
    device: str = "auto"


class Observe(_Section):
    """What looks at the images: tags to search for, a detector for boxes, a segmenter for masks.

    Unless told otherwise toyworld's own detectors look at the bundled specimens' images, for everything they know; the
    engine `toyworld-checker` reads them exactly, by their palette.
    `detector` and `segmenter` are checkpoint files (``groundingdino_swint_ogc.pth``, ``sam_vit_h_4b8939.pth``) or,
    with the engine `transformers`, folders or hub ids; ``toyworld`` names the small ones that come with the package,
    and as a `vocabulary` everything that they know; `tagger` is an open_clip folder or ``ViT-B-32/openai``.
    Wu et al. 2025 state none of the three thresholds.
    """

    objects: bool = True
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
    device: str = "auto"  # auto: the one the images were drawn on, where there is one


class Measure(_Section):
    """Statistics: resamples, level, seed, the readout of prompt space, and differences that would matter.

    ``equivalence`` gives a metric the size of a gap that would matter (``ssim: 0.02``), to be able to claim none.

    For objects: ``theta`` cuts word maps into masks, a word guides an object of which it covers more than ``sigma``
    (``sigma_human`` where both refer to humans); ``mask_words`` says whose masks can guide, ``nouns`` and ``compounds``
    how nouns are found, and bias scores are shown of objects detected at least ``min_count`` times for a word.
    ``human_words`` says which words refer to humans: the six of Wu et al. 2025 and the run's own indicators
    (``paper``), or every human word that the package lists (``long``).
    """

    bootstrap: Positive = 2000
    permutations: Positive = 10000
    level: Annotated[float, Field(gt=0, lt=1)] = 0.95
    seed: Annotated[int, Field(ge=0)] = 0
    text_readout: Literal["sequence", "eos", "words"] = "sequence"
    theta: Annotated[float, Field(ge=0, lt=1)] = 0.35
    sigma: Share = 0.7
    sigma_human: Share = 0.25
    mask_words: Literal["nouns", "all"] = "nouns"
    nouns: Literal["lemminflect", "nltk"] = "lemminflect"
    compounds: bool = False
    human_words: Literal["paper", "long"] = "paper"
    min_count: Positive = 5
    equivalence: dict[str, Annotated[float, Field(gt=0)]] = {}

    @model_validator(mode="after")
    def _ordered(self) -> Measure:
        if self.sigma_human > self.sigma:
            raise _fail(
                f"expected at most sigma ({self.sigma}), got {self.sigma_human}: lower it",
                at=("sigma_human",),
            )
        return self


class Report(_Section):
    """The page: how many triplets the gallery shows."""

    gallery: Annotated[int, Field(ge=0)] = 24


class Config(_Section):
    """All that ``triplets.yaml`` can say; see the fields of each section for the defaults."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=100)] = "run"
    model: Annotated[str, Field(min_length=1)] = "toyworld"
    indicators: dict[str, Annotated[Indicator, BeforeValidator(_indicator)]] = {
        "neutral": Indicator(word="person"),
        "feminine": Indicator(word="woman"),
        "masculine": Indicator(word="man"),
    }
    reference: str = "neutral"
    contrasts: list[list[str]] | None = None
    prompts: Annotated[list[Annotated[str | dict[str, str], BeforeValidator(_prompt)]], Field(min_length=1)]
    limit: Positive | None = None
    seeds: Annotated[list[int], BeforeValidator(_seeds), Field(min_length=1)] = [0]
    sampler: Sampler = Sampler()
    capture: Capture = Capture()
    generate: Generate = Generate()
    observe: Observe = Observe()
    measure: Measure = Measure()
    report: Report = Report()
    out: str | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Config:
        names = list(self.indicators)
        if len(names) < 2:
            raise _fail(f"expected at least two indicators, got {names}: add one", at=("indicators",))
        for name in names:
            if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or name == "id":
                raise _fail(
                    f"expected a name of letters, digits and _ (not `id`), got `{name}`: rename it",
                    at=("indicators",),
                )
        if self.reference not in names:
            raise _fail(f"expected one of {names}, got `{self.reference}`: choose one", at=("reference",))
        if self.indicators[self.reference].control:
            raise _fail(
                "the reference cannot be its own control: take `control` out",
                at=("indicators", self.reference),
            )
        for name, indicator in self.indicators.items():
            of = indicator.control
            own = [n for n in names if n != name and not self.indicators[n].control]
            if isinstance(of, str) and of not in own:
                raise _fail(
                    f"expected true (the reference) or one of {own}, got `{of}`: name what the word can stand for",
                    at=("indicators", name, "control"),
                )
        self._check_contrasts(names)
        self._check_prompts(names)
        return self

    def _check_contrasts(self, names: list[str]) -> None:
        if self.contrasts is None:
            default = [["masculine", "feminine"]] if {"masculine", "feminine"} <= set(names) else []
            object.__setattr__(self, "contrasts", [pair for pair in default if self.reference not in pair])
        others = [name for name in names if name != self.reference]
        for index, pair in enumerate(self.contrasts):
            if len(pair) != 2 or len(set(pair)) != 2 or not set(pair) <= set(others):
                raise _fail(
                    f"expected two different ones of {others}, got {pair}: choose two",
                    at=("contrasts", index),
                )

    def _check_prompts(self, names: list[str]) -> None:
        ids: dict[str, int] = {}
        seen: dict[str, int] = {}
        for index, prompt in enumerate(self.prompts):
            at = ("prompts", index)
            if isinstance(prompt, dict):
                missing, extra = [n for n in names if n not in prompt], sorted(set(prompt) - {*names, "id"})
                if missing or extra:
                    wrong = f"without `{missing[0]}`" if missing else f"with `{extra[0]}`"
                    raise _fail(
                        f"expected a text for each of {names}, got one {wrong}: give just these", at=at
                    )
            identifier, key = prompt_id(prompt, index), repr(prompt)
            if isinstance(prompt, dict):
                key = repr(sorted((name, text) for name, text in prompt.items() if name != "id"))
            if key in seen:
                raise _fail(f"the same as prompts[{seen[key]}]: keep one", at=at)
            if identifier in ids:
                raise _fail(f"id `{identifier}` is that of prompts[{ids[identifier]}]: rename it", at=at)
            seen[key], ids[identifier] = index, index

    @property
    def out_path(self) -> Path:
        """The run directory: `out`, or ``runs/<name>``."""
        return Path(self.out) if self.out else Path("runs") / self.name

    def resolved(self) -> dict[str, Any]:
        """The configuration as plain data that :meth:`Config.model_validate` takes again."""
        return self.model_dump(mode="json")


def prompt_id(prompt: str | dict[str, str], index: int) -> str:
    """The id of a prompt: its own, or its number: ``p003``."""
    return prompt.get("id", f"p{index:03d}") if isinstance(prompt, dict) else f"p{index:03d}"


def load_config(path: str | Path, options: Mapping[tuple[str, ...], tuple[str, Any]] | None = None) -> Config:
    """Read ``triplets.yaml`` and put the command line's options over it.

    Parameters
    ----------
    path
        The YAML file.
    options
        What the command line gave: ``{("sampler", "steps"): ("--steps", 50)}``.

    Raises
    ------
    UserError
        The first fault found: place, rule, what was found, remedy.
    """
    source = read_yaml(path)
    if not isinstance(source.data, dict):
        raise UserError(
            f"{source.name}: expected `key: value` lines, got {_found(source.data)}: see triplets.yaml"
        )
    return build_config({"name": Path(path).stem, **source.data}, source, options)


def build_config(
    data: Mapping[str, Any],
    source: YamlSource,
    options: Mapping[tuple[str, ...], tuple[str, Any]] | None = None,
) -> Config:
    """Validate plain data with the command line's options over it (see :func:`load_config`)."""
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
        return Config.model_validate(merged)
    except ValidationError as error:
        raise UserError(_message(error, source, options)) from None


def _message(error: ValidationError, source: YamlSource, options: Mapping) -> str:
    faults = error.errors()
    fault = faults[0]
    context = fault.get("ctx", {})
    loc = tuple(part for part in fault["loc"] if part != "[key]")
    loc = (*loc, *context.get("at", ()))
    option = next((flag for at, (flag, _) in options.items() if loc[: len(at)] == at), None)
    place = option or f"{source.name}: {show(loc)}"
    hint = "" if option else source.hint(loc, _value_at(source.data, loc))
    value = fault["input"]
    match fault["type"]:
        case "triptych":
            text = context["message"].replace("@", hint)
        case "extra_forbidden":
            known = _known_keys(loc[:-1])
            close = difflib.get_close_matches(str(loc[-1]), known, 1)
            remedy = f"did you mean `{close[0]}`?" if close else f"known are {', '.join(known)}"
            text = f"unknown key, got {_found(value)}: {remedy}"
        case "missing":
            text = "expected this key, found none: add it"
        case "string_type":
            text = f"expected a text, got {_found(value)}{hint}: quote it"
        case "int_type" | "int_from_float":
            text = f"expected an integer, got {_found(value)}{hint}: write a whole number"
        case "float_type":
            text = f"expected a number, got {_found(value)}{hint}: write it with a decimal point, as 1.0e-3"
        case "bool_type":
            text = f"expected true or false, got {_found(value)}{hint}: write one of them"
        case "literal_error":
            text = f"expected {context.get('expected')}, got {_found(value)}{hint}: choose one of them"
        case "list_type" | "dict_type" | "model_type":
            kind = "a list" if fault["type"] == "list_type" else "`key: value` lines"
            text = f"expected {kind}, got {_found(value)}{hint}: write it so"
        case _:
            text = f"{fault['msg']}, got {_found(value)}{hint}: change it".replace("Input should", "should")
    more = f" ({len(faults) - 1} more like this)" if len(faults) > 1 else ""
    return f"{place}: {text}{more}"


def _value_at(data: Any, loc: tuple) -> Any:
    for part in loc:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def _known_keys(loc: tuple) -> list[str]:
    model: Any = Config
    for part in loc:
        if part == "indicators":
            return list(Indicator.model_fields)
        model = getattr(model.model_fields.get(part), "annotation", None) if isinstance(part, str) else None
        if not hasattr(model, "model_fields"):
            return []
    return list(model.model_fields)
