"""What a model's description (its JSON files) must say before its weights are read: checked without weights.

The components are built from their configurations on torch's meta device and run once, so that a size that does not
fit another is told in one line, naming the file, before an image is drawn or a file is written.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from hooks.architectures import unet_size
from probes.errors import UserError, first_line
from probes.json_text import parse_json
from probes.models import pretrained, weight_files
from probes.models.source import Source

PIPELINES = ("StableDiffusionPipeline", "StableDiffusionXLPipeline")
SUPPORTED = "choose a text-to-image model of Stable Diffusion 1.x, 2.x or XL"
INDEX = "model_index.json"

_TEXT = ("CLIPTextModel", "CLIPTextModelWithProjection")
_TOKENIZER = ("CLIPTokenizer", "CLIPTokenizerFast")
_COMPONENTS = {
    "tokenizer": ("transformers", _TOKENIZER),
    "text_encoder": ("transformers", _TEXT),
    "unet": ("diffusers", ("UNet2DConditionModel",)),
    "vae": ("diffusers", ("AutoencoderKL",)),
}
_SECOND = {
    "tokenizer_2": ("transformers", _TOKENIZER),
    "text_encoder_2": ("transformers", _TEXT[1:]),
}
# `stable_diffusion` and its like hold the safety checkers of old models, which are not loaded
_LIBRARIES = ("diffusers", "transformers", "stable_diffusion", "stable_diffusion_xl")
# beyond what any model has; building a million layers would take hours before it fails
_MOST_LAYERS, _MOST_CHANNELS, _MOST_LATENTS = 200, 2**20, 1024
_LAYERS = ("num_hidden_layers", "layers_per_block", "transformer_layers_per_block", "num_attention_heads")

_REHEARSED: set[str] = set()  # descriptions that have run in this process


@dataclass(frozen=True)
class Description:
    """A pipeline as its folder describes it: class, and the components with weights built without them."""

    pipeline: str
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
    """A JSON file of the description that must hold an object.

    Raises
    ------
    UserError
        There is no such file, or it holds something else.
    """
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
    """``model_index.json``, of a pipeline that can be probed, with components of classes that are known.

    Raises
    ------
    UserError
        It is damaged, of another pipeline, or names a class that is none of the pipeline's.
    """
    index = read_object(source, INDEX)
    kind = index.get("_class_name")
    if kind not in PIPELINES:
        got = f"{kind!s:.60}" if kind is not None else "no `_class_name`"
        raise fault(source, INDEX, " or ".join(PIPELINES), got, SUPPORTED)
    wanted = _COMPONENTS | (_SECOND if kind == PIPELINES[1] else {})
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
    for name, (library, classes) in wanted.items():
        entry = index.get(name)
        if not isinstance(entry, list) or len(entry) != 2 or entry[0] != library or entry[1] not in classes:
            expected = f"`{name}: [{library}, {' or '.join(classes)}]`"
            raise fault(source, INDEX, expected, f"{entry!r:.80}", "mend it or choose another model")
    entry = index.get("scheduler")
    if not isinstance(entry, list) or len(entry) != 2 or entry[0] != "diffusers":
        raise fault(source, INDEX, "`scheduler: [diffusers, NAME]`", f"{entry!r:.80}", "mend it")
    return index


def check(source: Source, tokenizers: list[Any]) -> Description:
    """Check that a model's descriptions fit one another, without its weights.

    Parameters
    ----------
    source
        From :func:`probes.models.loading.resolve`.
    tokenizers
        From :func:`probes.models.loading.tokenizers`.

    Raises
    ------
    UserError
        A file is damaged, a size does not fit, or the tokenizer has tokens that the text encoder does not know.
    """
    import torch

    index = read_index(source)
    names = [name for name in ("text_encoder", "text_encoder_2", "unet", "vae") if _wanted(index, name)]
    built = {name: _build(source, name, index[name][1]) for name in names}
    encoders = [built[name] for name in names if name.startswith("text_encoder")]
    for number, tokenizer, encoder in zip(("", "_2"), tokenizers, encoders):
        _check_tokenizer(source, f"tokenizer{number}", tokenizer, encoder.config)
    _check_numbers(source, built["unet"].config, built["vae"].config)
    lengths = [tokenizer.model_max_length for tokenizer in tokenizers]
    sizes = _sizes(index, built, lengths)
    if sizes not in _REHEARSED:  # a second or two, and asked for twice: before and after the weights are read
        with torch.no_grad(), torch.device("meta"):
            _rehearse(source, index, built, lengths)
        _REHEARSED.add(sizes)
    return Description(pipeline=index["_class_name"], components=built)


def _sizes(index: Mapping[str, Any], built: Mapping[str, Any], lengths: list[int]) -> str:
    """All that decides whether a rehearsal succeeds, as text: classes, settings and lengths of prompts."""
    settings = {}
    for name, module in built.items():
        config = module.config.to_dict() if hasattr(module.config, "to_dict") else dict(module.config)
        settings[name] = [type(module).__name__, config]
    return json.dumps([index["_class_name"], lengths, settings], sort_keys=True, default=str)


def _wanted(index: Mapping[str, Any], name: str) -> bool:
    return name in _COMPONENTS or (name in _SECOND and index["_class_name"] == PIPELINES[1])


def _build(source: Source, name: str, kind: str) -> Any:
    """A component from its configuration, without weights."""
    file = f"{name}/config.json"
    config = read_object(source, file)
    _check_size(source, file, config)
    with readable(source, file, f"a description of a {kind}"):
        return copy(_component(kind, json.dumps(config)))  # pipelines put settings over those of old models


@lru_cache(maxsize=4)  # a second of work, and asked for twice: before and after the weights are read
def _component(kind: str, settings: str) -> Any:
    """A component of this class, on torch's meta device; nobody alters it."""
    import diffusers
    import torch
    import transformers

    config = parse_json(settings)
    with torch.device("meta"):
        if hasattr(transformers, kind):
            return getattr(transformers, kind)(transformers.CLIPTextConfig.from_dict(config)).eval()
        return getattr(diffusers, kind).from_config(config).eval()


def _check_size(source: Source, file: str, config: Mapping[str, Any]) -> None:
    """Refuse numbers of layers and channels that would take hours to build."""
    for key, value in config.items():
        most = _MOST_LAYERS if key in _LAYERS else _MOST_CHANNELS
        if key.endswith("_id"):  # tokens, not sizes
            continue
        for number in _numbers(value):
            if abs(number) > most:
                raise fault(source, file, f"`{key}` of at most {most}", f"{number!r:.30}", "mend it")


def _numbers(value: Any) -> Iterator[int]:
    if isinstance(value, int) and not isinstance(value, bool):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _numbers(item)


def _check_tokenizer(source: Source, name: str, tokenizer: Any, config: Any) -> None:
    file, length = f"{name}/tokenizer_config.json", tokenizer.model_max_length
    if not isinstance(length, int) or not 2 < length <= config.max_position_embeddings:
        expected = (
            f"`model_max_length` of 3 to {config.max_position_embeddings}, the text encoder's positions"
        )
        raise fault(source, file, expected, f"{length!r:.40}", f"set it to {config.max_position_embeddings}")
    with readable(source, name, "a tokenizer"):
        token, largest = max(tokenizer.get_vocab().items(), key=lambda item: item[1])
    if largest >= config.vocab_size:
        raise fault(
            source,
            name,
            f"tokens below {config.vocab_size}, as text_encoder/config.json says",
            f"{largest} for {token!r:.40}",
            "give the tokenizer that belongs to the text encoder",
        )
    if tokenizer.pad_token_id is None or tokenizer.eos_token_id is None:
        missing = "pad_token" if tokenizer.pad_token_id is None else "eos_token"
        raise fault(source, file, f"a `{missing}`", "none", "add it")


def _check_numbers(source: Source, unet: Any, vae: Any) -> None:
    """What the pipeline computes with and the components themselves do not."""
    file, size = "unet/config.json", unet.sample_size
    sides = size if isinstance(size, (list, tuple)) else [size, size]
    if len(sides) != 2 or not all(type(side) is int and 0 < side <= _MOST_LATENTS for side in sides):
        expected = f"`sample_size`, the latents' height and width, of 1 to {_MOST_LATENTS}"
        got = "none" if size is None else f"{size!r:.40}"
        raise fault(source, file, expected, got, "add it, such as 64 for images of 512 pixels")
    channels = (unet.in_channels, unet.out_channels)
    if channels != (vae.latent_channels, vae.latent_channels):
        raise fault(
            source,
            file,
            f"{vae.latent_channels} channels in and out, as vae/config.json has in its latents",
            f"{channels[0]} and {channels[1]}",
            f"{SUPPORTED}, not one for inpainting or editing",
        )
    factor = vae.scaling_factor
    if isinstance(factor, bool) or not isinstance(factor, (int, float)) or not 0 < factor < float("inf"):
        raise fault(
            source, "vae/config.json", "`scaling_factor`, a number above 0", f"{factor!r:.40}", "mend it"
        )
    for key in ("latents_mean", "latents_std"):
        values = getattr(vae, key, None)
        whole = isinstance(values, (list, tuple)) and len(values) == vae.latent_channels
        if values is not None and not (whole and all(isinstance(value, (int, float)) for value in values)):
            expected = f"`{key}`, {vae.latent_channels} numbers or null"
            raise fault(source, "vae/config.json", expected, f"{values!r:.40}", "mend it")


def _rehearse(source: Source, index: Mapping[str, Any], built: Mapping[str, Any], lengths: list[int]) -> None:
    """Run text encoders, U-Net and decoder once without weights; the sizes of one must fit the next."""
    import torch

    xl = index["_class_name"] == PIPELINES[1]
    states, pooled = [], None
    for number, length in zip(("", "_2") if xl else ("",), lengths):
        name = f"text_encoder{number}"
        with readable(source, f"{name}/config.json", "a text encoder that runs"):
            output = built[name](torch.zeros(1, length, dtype=torch.long), output_hidden_states=xl)
            states.append(output.hidden_states[-2] if xl else output[0])
            pooled = output[0]
    model = SimpleNamespace(**built)
    unet, vae = model.unet, model.vae
    widths = " + ".join(str(state.shape[-1]) for state in states)
    expected = f"a U-Net that runs with the text encoder's width of {widths}"
    remedy = "mend it, or give the text encoder that belongs to it"
    more = {"added_cond_kwargs": {"text_embeds": pooled, "time_ids": torch.zeros(1, 6)}} if xl else {}
    with readable(source, "unet/config.json", expected, remedy):
        if unet.config.time_cond_proj_dim is not None:  # distilled models are told the guidance scale
            more["timestep_cond"] = torch.zeros(1, unet.config.time_cond_proj_dim)
        latents = torch.zeros(1, unet.config.in_channels, *unet_size.latent_size(model))
        drawn = unet(latents, torch.zeros(1), torch.cat(states, dim=-1), **more).sample
    if drawn.shape != latents.shape:
        shapes = f"{tuple(drawn.shape)} from {tuple(latents.shape)}"
        raise fault(source, "unet/config.json", "a prediction of the latents' shape", shapes, "mend it")
    with readable(source, "vae/config.json", "a decoder that runs"):
        image = vae.decode(drawn).sample
    wanted = (3, *unet_size.image_size(model))
    if image.shape != (1, *wanted):
        got = f"{tuple(image.shape[1:])}"
        raise fault(source, "vae/config.json", f"images of shape {wanted}", got, "mend it")


def check_weights(source: Source, description: Description) -> None:
    """Refuse weights that are fewer than the description asks for, before memory is taken for them.

    Raises
    ------
    UserError
        A safetensors file is damaged or too small for its configuration.
    """
    for name, module in description.components.items():
        folder = source.component(name)
        files = weight_files.names(folder, weight_files.choose(folder, source.variant))
        if not files or not all(file.endswith(".safetensors") for file in files):
            continue
        shapes = [shape for file in files for shape in stored_shapes(source, f"{name}/{file}").values()]
        have = sum(_product(shape) for shape in shapes)
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


def _product(shape: tuple[int, ...]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total
