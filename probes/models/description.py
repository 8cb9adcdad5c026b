"""Checks of a model's description (its JSON files), without its weights.

The components are built from their configurations on torch's meta device and run once, so that a size that does not
fit another is reported in one line, naming the file, before an image is drawn or a file is written.
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from hooks.architectures import decoder
from hooks.architectures.base import Architecture, build_blank
from hooks.architectures.layout import Component, Layout, MisfitError
from hooks.architectures.registry import drawing_pipelines, drawn_by
from hooks.architectures.text_encoders import longest_text, text_config
from hooks.architectures.unread import why_unread
from probes.errors import UserError, first_line
from probes.json_text import parse_json
from probes.models import pretrained, weight_files
from probes.models.source import CARD, Source
from probes.runs.identity import short

INDEX = "model_index.json"
# they read images or judge them; drawing from text needs none
IMAGE_READERS = ("safety_checker", "feature_extractor", "image_encoder")

# `stable_diffusion` and its like hold the safety checkers of old models, which are not loaded
_LIBRARIES = ("diffusers", "transformers", "stable_diffusion", "stable_diffusion_xl")
# beyond what any model has; building a million layers would take hours before it fails
_MOST_LAYERS, _MOST_CHANNELS = 200, 2**20
_LAYERS = ("num_hidden_layers", "num_layers", "num_single_layers", "layers_per_block")
_LAYERS += ("transformer_layers_per_block", "num_attention_heads")
_DESCRIBING = (".json", ".txt", ".model")

# the remedy for a model that cannot be drawn with
SUPPORTED = "choose a text-to-image model of a pipeline that `triptych models` lists"
UNQUANTIZED = "give the folder or hub id of the model that it was quantized from"

_REHEARSED: set[str] = set()  # descriptions that have run in this process


@dataclass(frozen=True)
class Description:
    """A pipeline as its folder describes it: what it is, and the components with weights built without them."""

    architecture: Architecture
    layout: Layout
    components: Mapping[str, Any]


def fault(source: Source, file: str, expected: str, got: str, remedy: str) -> UserError:
    """The line that names a model's file, what it should say and what it says."""
    return UserError(f"model {_short(source.name)}: {file}: expected {expected}, got {got}: {remedy}")


def _short(name: str, length: int = 160) -> str:
    return name if len(name) <= length else f"…{name[-length + 1 :]}"


def readable(
    source: Source, file: str, expected: str, remedy: str = "mend or download it again"
) -> AbstractContextManager[None]:
    """Say in one line what the libraries say of a model's damaged files (`probes.models.pretrained.readable`)."""
    return pretrained.readable(f"model {_short(source.name)}: {file}", expected, remedy)


def read_object(source: Source, file: str) -> dict[str, Any]:
    """A JSON file of the description that must hold an object."""
    try:
        data = parse_json(source.described(file).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise fault(source, file, "a description", "no such file", "add or download it") from None
    except (OSError, ValueError, RecursionError) as error:
        remedy = "mend or download it again"
        raise fault(source, file, "a description as JSON", f"`{first_line(error)}`", remedy) from None
    if not isinstance(data, dict):
        kind = "null" if data is None else f"a {type(data).__name__}"
        raise fault(source, file, "a description `{...}`", kind, "mend or download it again")
    return data


def read_card(source: Source) -> dict[str, Any]:
    """``triptych.json`` beside the weights, if any: the guidance scale the model was made for, and more."""
    file = source.card
    if not file.exists():
        return {}
    try:
        card = parse_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{file}: expected JSON, got `{first_line(error)}`: mend or remove it") from None
    scale = card.get("guidance_scale", 0.0) if isinstance(card, dict) else None
    if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not math.isfinite(scale):
        raise UserError(f'{file}: expected {{"guidance_scale": number, ...}}, got something else: mend it')
    return card


def read_index(source: Source) -> dict[str, Any]:
    """``model_index.json``, of a pipeline that can be probed, with components of classes that are known."""
    index = read_object(source, INDEX)
    kind, pipelines = index.get("_class_name"), drawing_pipelines()
    if kind not in pipelines:
        got = f"{kind!s:.60}" if kind is not None else "no `_class_name`"
        missing = why_unread(str(kind))
        remedy = f"{missing}; {SUPPORTED}" if missing else SUPPORTED
        raise fault(source, INDEX, "a pipeline that can be read", got, remedy)
    for name, entry in index.items():
        if isinstance(entry, list) and entry[:1] != [None] and not (entry and entry[0] in _LIBRARIES):
            expected = f"`{name}` of diffusers or transformers"
            raise fault(
                source,
                INDEX,
                expected,
                f"{entry!r:.80}",
                "code of a model's author is not run, choose another",
            )
    layout = drawn_by(kind)[1]
    for wanted in layout.components:
        entry = index.get(wanted.name)
        if len(layout.text_encoders) > 1 and entry in (None, [None, None]):
            expected = f"`{wanted.name}: [{wanted.library}, {' or '.join(wanted.classes)}]`"
            remedy = f"{kind} would generate from less of the text; download the whole model"
            raise fault(source, INDEX, expected, "none", remedy)
        known = isinstance(entry, list) and len(entry) == 2 and entry[0] == wanted.library
        if not known or entry[1] not in wanted.classes:
            expected = f"`{wanted.name}: [{wanted.library}, {' or '.join(wanted.classes)}]`"
            raise fault(source, INDEX, expected, f"{entry!r:.80}", "mend it or choose another model")
    entry = index.get("scheduler")
    if not isinstance(entry, list) or len(entry) != 2 or entry[0] != "diffusers":
        raise fault(source, INDEX, "`scheduler: [diffusers, NAME]`", f"{entry!r:.80}", "mend it")
    return index


def read_kind(source: Source) -> tuple[Architecture, Layout]:
    """The architecture of a model, and what its pipeline is made of; see `read_index`."""
    return drawn_by(read_index(source)["_class_name"])


def files(source: Source) -> dict[str, str]:
    """A digest of every file of a model that is read beside its weights, by ``model/<path>``: they are part of a run.

    Weights are known by their content once they are loaded (:func:`probes.models.weights.weight_hash`), whichever of a
    folder's files held them.
    """
    _, layout = read_kind(source)
    paths = {INDEX: source.described(INDEX), CARD: source.card}
    for folder in sorted({"scheduler", *(component.name for component in layout.components)}):
        for place in (*reversed(source.bases), source.config):  # what stands in first, then the model's
            paths |= {f"{folder}/{path.name}": path for path in sorted((place / folder).glob("*"))}
    try:
        return {
            f"model/{name}": short(path.read_bytes())
            for name, path in paths.items()
            if path.suffix in _DESCRIBING and ".index." not in path.name and path.is_file()
        }
    except OSError as error:
        raise UserError(
            f"model {source.name}: {error.filename}: cannot be read ({error.strerror}): check its permissions"
        ) from None


def check(source: Source, tokenizers: list[Any]) -> Description:
    """Check that a model's descriptions fit one another, without its weights."""
    import torch

    described = build(source)
    built, layout = described.components, described.layout
    for named, tokenizer, encoder in zip(layout.tokenizers, tokenizers, layout.text_encoders, strict=True):
        _check_tokenizer(source, named.name, tokenizer, built[encoder.name])
    try:
        described.architecture.check(SimpleNamespace(**built))
    except MisfitError as error:
        file = f"{error.component}/config.json"
        raise fault(source, file, error.expected, error.got, error.remedy) from None
    own = [tokenizer.model_max_length for tokenizer in tokenizers]
    lengths = [min(pair) for pair in zip(layout.lengths or own, own, strict=True)]
    sizes = _sizes(described, lengths)
    if sizes not in _REHEARSED:  # a second or two, and asked for twice: before and after the weights are read
        with torch.no_grad(), torch.device("meta"):
            _rehearse(source, described, lengths)
        _REHEARSED.add(sizes)
    return described


def build(source: Source) -> Description:
    """Build the components of a model from their configurations, without weights."""
    index, (architecture, layout) = read_index(source), read_kind(source)
    built = {one.name: _build(source, one, index[one.name][1]) for one in layout.networks}
    return Description(architecture, layout, built)


def _sizes(described: Description, lengths: list[int]) -> str:
    """All that decides whether a rehearsal succeeds, as text: classes, settings and lengths of prompts."""
    settings = {}
    for name, module in described.components.items():
        config = module.config.to_dict() if hasattr(module.config, "to_dict") else dict(module.config)
        settings[name] = [type(module).__name__, config]
    return json.dumps([described.layout.pipeline, lengths, settings], sort_keys=True, default=str)


def _build(source: Source, component: Component, kind: str) -> Any:
    """A component from its configuration, without weights."""
    file = f"{component.name}/config.json"
    config = read_object(source, file)
    if quantized := config.get("quantization_config"):
        method = quantized.get("quant_method") if isinstance(quantized, dict) else None
        got = f"`quantization_config` ({method or 'of no method'!s:.40})"
        raise fault(source, file, "weights in float32, float16 or bfloat16", got, UNQUANTIZED)
    _check_size(source, file, config)
    with readable(source, file, f"a description of a {kind}"):
        # pipelines put settings over those of old models
        return copy(_component(component.library, kind, json.dumps(config)))


@lru_cache(maxsize=4)  # a second of work, and asked for twice: before and after the weights are read
def _component(library: str, kind: str, settings: str) -> Any:
    """A component of this class, on torch's meta device; nobody alters it."""
    return build_blank(getattr(importlib.import_module(library), kind), parse_json(settings))


def _check_size(source: Source, file: str, config: Mapping[str, Any]) -> None:
    """Refuse numbers of layers and channels that would take hours to build."""
    for key, value in config.items():
        most = _MOST_LAYERS if key in _LAYERS else _MOST_CHANNELS
        if key.endswith("_id"):  # tokens, not sizes
            continue
        for number in _numbers(value):
            if key in _LAYERS and number < 0:
                raise fault(source, file, f"`{key}` of 0 or more", f"{number!r:.30}", "mend it")
            if abs(number) > most:
                raise fault(source, file, f"`{key}` of at most {most}", f"{number!r:.30}", "mend it")


def _numbers(value: Any) -> Iterator[int]:
    if isinstance(value, int) and not isinstance(value, bool):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _numbers(item)


def _check_tokenizer(source: Source, name: str, tokenizer: Any, encoder: Any) -> None:
    file, length = f"{name}/tokenizer_config.json", tokenizer.model_max_length
    config, longest = text_config(encoder), longest_text(encoder)
    if not isinstance(length, int) or length < 3 or (longest is not None and length > longest):
        # where positions are relative, the pipeline's own length is the limit
        expected = f"`model_max_length` of 3 to {longest}, the text encoder's positions"
        raise fault(source, file, expected, f"{length!r:.40}", f"set it to {longest}")
    with readable(source, name, "a tokenizer"):
        token, largest = max(tokenizer.get_vocab().items(), key=lambda item: item[1])
    if largest >= config.vocab_size:
        raise fault(
            source,
            name,
            f"tokens below {config.vocab_size}, as {name.replace('tokenizer', 'text_encoder')}/config.json says",
            f"{largest} for {token!r:.40}",
            "give the tokenizer that belongs to the text encoder",
        )
    if tokenizer.pad_token_id is None or tokenizer.eos_token_id is None:
        missing = "pad_token" if tokenizer.pad_token_id is None else "eos_token"
        raise fault(source, file, f"a `{missing}`", "none", "add it")


def _rehearse(source: Source, described: Description, lengths: list[int]) -> None:
    """Run text encoders, denoiser and decoder once without weights; the sizes of one must fit the next."""
    import torch

    architecture, layout = described.architecture, described.layout
    model = SimpleNamespace(**described.components)
    outputs = []
    for encoder, length in zip(layout.text_encoders, lengths, strict=True):
        with readable(source, f"{encoder.name}/config.json", "a text encoder that runs"):
            ids = torch.zeros(1, length, dtype=torch.long)
            outputs.append(getattr(model, encoder.name)(ids, output_hidden_states=True))
    files = " and ".join(f"{encoder.name}/config.json" for encoder in layout.text_encoders)
    with readable(source, files, "a text encoder with the layers that the pipeline reads"):
        text = architecture.text_arguments(outputs)
        widths = " + ".join(str(output.hidden_states[-1].shape[-1]) for output in outputs)
    expected = f"a {architecture.denoiser_name} that runs with the text encoder's width of {widths}"
    remedy = "mend it, or give the text encoder that belongs to it"
    file = f"{layout.denoiser.name}/config.json"
    with readable(source, file, expected, remedy):
        # positions of packed latents, which say it elsewhere, have no values here
        model.blank_size = architecture.latent_size(model)
        call = architecture.blank_call(model, model.blank_size, text)
        latents = architecture.inputs(model, (), call)
        drawn = architecture.prediction(latents, architecture.denoiser(model)(**call))
    if drawn.shape != latents.latent.shape:
        shapes = f"{tuple(drawn.shape)} from {tuple(latents.latent.shape)}"
        raise fault(source, file, "a prediction of the latents' shape", shapes, "mend it")
    file = f"{layout.decoder.name}/config.json"
    with readable(source, file, "a decoder that runs"):
        image = decoder.decode(architecture.decoder(model), drawn)
    wanted = (3, *architecture.image_size(model))
    if image.shape != (1, *wanted):
        got = f"{tuple(image.shape[1:])}"
        raise fault(source, file, f"images of shape {wanted}", got, "mend it")


def check_weights(source: Source, description: Description) -> None:
    """Refuse weights that are fewer than the description asks for, before memory is taken for them."""
    for name, module in description.components.items():
        folder = source.component(name)
        files = weight_files.names(folder, weight_files.choose(folder, source.variant))
        if not files or not all(file.endswith(".safetensors") for file in files):
            continue
        shapes = [shape for file in files for shape in stored_shapes(source, f"{name}/{file}").values()]
        have = sum(map(math.prod, shapes))
        need = sum(parameter.numel() for parameter in module.parameters())
        if have < need:
            got, remedy = f"{have:,}", "mend config.json or download the weights again"
            expected = f"the {need:,} numbers that {name}/config.json describes"
            raise fault(source, f"{name}/{files[0]}", expected, got, remedy)


def stored_shapes(source: Source, file: str) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors of a safetensors file; its weights are not read."""
    from safetensors import safe_open

    folder, _, name = file.rpartition("/")
    path = source.component(folder) / name if file else source.path
    with readable(source, file or path.name, "weights as safetensors"), safe_open(path, "pt") as weights:
        return {key: tuple(weights.get_slice(key).get_shape()) for key in weights.keys()}  # noqa: SIM118
