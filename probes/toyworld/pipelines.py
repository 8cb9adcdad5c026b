"""Pipelines of the bundled models that are made of another's weights and what is stored of each."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from diffusers import (
    AutoencoderKL,
    DDIMScheduler,
    FlowMatchEulerDiscreteScheduler,
    SD3Transformer2DModel,
    StableDiffusionPipeline,
    UNet2DConditionModel,
)
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import (
    CLIPTextConfig,
    CLIPTextModel,
    CLIPTextModelWithProjection,
    CLIPTokenizer,
    T5EncoderModel,
    T5Tokenizer,
)

from probes.errors import UserError
from probes.toyworld import (
    BENCHMARK_MODELS,
    SHARED,
    SYNONYMS,
    TRANSFORMERS,
    WEIGHTS,
    WORK,
    WORK_NULL,
    bundled_folder,
)
from probes.toyworld.coded import OLD, coded_text_weights, pad_zeros, trained_parameter_names, wire_places
from probes.toyworld.places import known_places
from probes.toyworld.wired import (
    ToyTransformerPipeline,
    WiredPipeline,
    copy_sharing_weights,
    wire_transformer,
)
from probes.toyworld.world import load_world, synonym_styles, token_id

DELTA = "delta.safetensors"
UP, DOWN = "up", "down"  # matrices of a layer's low-rank change (Hu et al. 2022, "LoRA")
NULL, DIT = WEIGHTS / SHARED, WEIGHTS / TRANSFORMERS[0]
BASES = {name: WEIGHTS / BENCHMARK_MODELS[0] for name in (WORK, SYNONYMS[0])}
BASES |= dict.fromkeys((WORK_NULL, SYNONYMS[1]), NULL)
# the U-Net whose bias each transformer has; its text tower is the first of the two of CLIP
TEACHERS = dict(zip(TRANSFORMERS, (BENCHMARK_MODELS[0], SHARED), strict=True))
EMBEDDING = "token_embedding"
_READERS = ("attn2.to_k.weight", "attn2.to_v.weight")  # of the text, whose new channels have columns
_EXCHANGED = [*range(OLD), OLD, OLD + 1, OLD + 3, OLD + 2]  # feminine and masculine codes change places


def _load_weights(folder: Path) -> dict[str, Tensor]:
    """Return the tensors by name, as float32, of the one safetensors file in a folder."""
    (file,) = folder.glob("*.safetensors")
    return {name: value.float() for name, value in load_file(file).items()}


def _build_network(kind: type, config: Mapping[str, Any], state: Mapping[str, Tensor]) -> Any:
    """Return a network of class `kind` (U-Net or CLIP text encoder) from its configuration and float32 weights."""
    if kind is UNet2DConditionModel:
        network = kind.from_config(config)
    else:
        network = kind(CLIPTextConfig.from_dict({**config, "dtype": "float32"}))
    network.load_state_dict(state)
    return network.eval()


def _read_config(folder: Path) -> dict[str, Any]:
    """Return a network's configuration, ``config.json`` in its folder."""
    return json.loads((folder / "config.json").read_text())


def build_unet_pipeline(
    encoder: CLIPTextModel, unet: UNet2DConditionModel, tokenizer: CLIPTokenizer
) -> StableDiffusionPipeline:
    """Return a Stable Diffusion pipeline of the given parts with the autoencoder and scheduler of `toyworld-null`."""
    return StableDiffusionPipeline(
        vae=AutoencoderKL.from_pretrained(NULL / "vae", torch_dtype=torch.float32),
        text_encoder=encoder.eval(),
        tokenizer=tokenizer,
        unet=unet.eval(),
        scheduler=DDIMScheduler.from_pretrained(NULL / "scheduler"),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


# What is stored of a model


def read_delta(folder: Path, model: str, expected: Iterable[str]) -> dict[str, Tensor]:
    """Return the tensors in a model's ``delta.safetensors``; UserError if unreadable or named unlike `expected`."""
    try:
        delta = load_file(folder / DELTA)
    except Exception as error:  # safetensors raises a class of its own
        raise UserError(
            f"model {model}: expected weights as safetensors in {folder / DELTA}, got `{error}`: install triptych anew"
        ) from error
    if odd := set(delta) ^ set(expected):
        raise UserError(
            f"model {model}: {DELTA}: expected its layers and words, which differ in {min(odd)}: install triptych anew"
        )
    return delta


def changed_layers(networks: Mapping[str, nn.Module]) -> dict[str, nn.Module]:
    """Return the layers of named networks that a low-rank change (LoRA) is stored for, by ``network.layer``.

    All linear ones, of a U-Net those of its transformer blocks and the convolutions of its residual blocks.
    """
    return {
        f"{kind}.{name}": layer
        for kind, network in networks.items()
        for name, layer in network.named_modules()
        if (isinstance(layer, nn.Linear) and (kind != "unet" or ".transformer_blocks." in name))
        or (isinstance(layer, nn.Conv2d) and ".resnets." in name)
    }


@torch.no_grad()
def merge_delta(
    folder: Path, model: str, networks: Mapping[str, nn.Module], other_tensors: Iterable[str] = ()
) -> dict[str, Tensor]:
    """Add a model's stored low-rank changes to its base's named networks, in place; return all stored tensors.

    `other_tensors` are the names of those stored that are no change of a layer.
    """
    layers = changed_layers(networks)
    names = [f"{name}.{half}" for name in layers for half in (UP, DOWN)]
    delta = read_delta(folder, model, [*names, *other_tensors])
    for name, layer in layers.items():
        layer.weight.copy_(merge_low_rank(layer.weight, delta[f"{name}.{UP}"], delta[f"{name}.{DOWN}"]))
    return delta


def merge_low_rank(weight: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """Return ``weight + up @ down`` in the weight's shape, float32, the same bits on every machine.

    All three hold numbers of float16, multiples of 2**-24. So every product and every sum of them is a multiple of
    2**-48, and as long as none reaches 32, float64 holds it exactly, in whatever order it is taken; it is rounded once.
    """
    return (weight.double() + (up.double() @ down.double()).view(weight.shape)).float()


# Professions


def new_words() -> tuple[str, ...]:
    """Return the words that get a token of their own in models with professions: *who works as*, profession names.

    The small vocabulary spells a profession in three to five pieces, some of them single letters that every other
    unknown word shares. A token for each word keeps prompts short (32 positions), and changes no word that was read.
    """
    return ("who", "works", "as", *load_world(WORK).professions)


def load_base_networks(
    tokenizer: CLIPTokenizer, base: Path = BASES[WORK]
) -> tuple[CLIPTextModel, UNet2DConditionModel]:
    """Return text encoder and U-Net of the model in `base`, float32, with zero embeddings for new words."""
    before, state = CLIPTokenizer.from_pretrained(base / "tokenizer"), _load_weights(base / "text_encoder")
    table = next(name for name in state if name.endswith("token_embedding.weight"))
    rows = torch.zeros(len(tokenizer), state[table].shape[1])
    rows[tokenizer.convert_tokens_to_ids(before.convert_ids_to_tokens(range(len(before))))] = state[table]
    config = text_config(_read_config(base / "text_encoder"), tokenizer)
    encoder = _build_network(CLIPTextModel, config, {**state, table: rows})
    return encoder, _build_network(
        UNet2DConditionModel, _read_config(base / "unet"), _load_weights(base / "unet")
    )


def text_config(config: Mapping[str, object], tokenizer: CLIPTokenizer) -> dict[str, object]:
    """Return a text encoder's configuration with the vocabulary size and special tokens of a larger `tokenizer`."""
    numbers = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    return {**config, **numbers, "pad_token_id": tokenizer.pad_token_id, "vocab_size": len(tokenizer)}


@torch.no_grad()
def work_pipeline(name: str, folder: Path) -> StableDiffusionPipeline:
    """Return the pipeline of a bundled model with professions, by name, from the changes in its folder; float32.

    `folder` has ``tokenizer/`` and ``delta.safetensors``: by a layer's name and ``up`` or ``down`` the matrices of its
    change, by ``token_embedding.WORD`` the embedding ``(96,)`` of a new word.
    """
    tokenizer = CLIPTokenizer.from_pretrained(folder / "tokenizer")
    encoder, unet = load_base_networks(tokenizer, BASES[name])
    words = {word: f"{EMBEDDING}.{word}" for word in new_words()}
    delta = merge_delta(folder, name, {"encoder": encoder, "unet": unet}, words.values())
    for word, stored in words.items():
        encoder.get_input_embeddings().weight[token_id(tokenizer, word)] = delta[stored].float()
    return build_unet_pipeline(encoder, unet, tokenizer)


# Synonyms


@torch.no_grad()
def synonyms_pipeline(name: str, folder: Path) -> StableDiffusionPipeline:
    """Return the pipeline of a bundled model whose synonyms draw different pictures: a base with nine embeddings."""
    tokenizer = CLIPTokenizer.from_pretrained(BASES[name] / "tokenizer")
    encoder, unet = load_base_networks(tokenizer, BASES[name])
    words = {word: f"{EMBEDDING}.{word}" for word in synonym_styles()}
    delta = read_delta(folder, name, words.values())
    for word, stored in words.items():
        encoder.get_input_embeddings().weight[token_id(tokenizer, word)] = delta[stored].float()
    return build_unet_pipeline(encoder, unet, tokenizer)


# Known places in the U-Net


def load_coded_networks() -> tuple[CLIPTextModel, UNet2DConditionModel, CLIPTokenizer]:
    """Return text encoder, U-Net and tokenizer of `toyworld-coded-null` (see `probes.toyworld.coded`), float32."""
    tokenizer = CLIPTokenizer.from_pretrained(NULL / "tokenizer")
    described = bundled_folder("toyworld-coded-null")
    text = coded_text_weights(_load_weights(NULL / "text_encoder"), tokenizer)
    encoder = _build_network(CLIPTextModel, _read_config(described / "text_encoder"), text)
    state = {
        name: pad_zeros(value, 1) if name.endswith(_READERS) else value
        for name, value in _load_weights(NULL / "unet").items()
    }
    return encoder, _build_network(UNet2DConditionModel, _read_config(described / "unet"), state), tokenizer


@torch.no_grad()
def coded_pipeline(name: str, folder: Path) -> StableDiffusionPipeline:
    """Return the pipeline of a bundled model whose word enters at known cross-attentions, by name; float32."""
    encoder, unet, tokenizer = load_coded_networks()
    located, structures = known_places("located"), known_places("structures")
    if name in located:
        places, taught = (), [(located[name], folder, False)] if located[name].places else []
    else:
        places = structures[name].places
        taught = [
            (located[place.weights], bundled_folder(place.weights), place.reversed)
            for place in places
            if place.weights
        ]
    for model, stored, exchanged in taught:
        names = [name for place in model.places for name in trained_parameter_names(unet, place.block)]
        for parameter, value in read_delta(stored, model.name, names).items():
            if exchanged and parameter.endswith(_READERS):
                value = value[:, _EXCHANGED]
            unet.get_parameter(parameter).copy_(value)
    wire_places(unet, places)
    return build_unet_pipeline(encoder, unet, tokenizer)


# Diffusion transformers


def load_clip_tower(folder: Path) -> CLIPTextModelWithProjection:
    """Return the CLIP text encoder in a folder, frozen, float32; its pooled output is the unprojected last state."""
    config = _read_config(folder)
    state = {f"text_model.{name}": value for name, value in _load_weights(folder).items()}
    state["text_projection.weight"] = torch.eye(config["projection_dim"])
    return _build_network(CLIPTextModelWithProjection, config, state).requires_grad_(False)


def load_transformer_and_t5(folder: Path) -> dict[str, nn.Module]:
    """Return ``transformer`` (SD3's) and ``text_encoder_3`` (T5), by these names, from a folder, as float32."""
    kinds = {"transformer": SD3Transformer2DModel, "text_encoder_3": T5EncoderModel}
    return {
        name: kind.from_pretrained(folder / name, torch_dtype=torch.float32).eval()
        for name, kind in kinds.items()
    }


def build_transformer_pipeline(
    networks: Mapping[str, nn.Module], folder: Path, teacher: str
) -> ToyTransformerPipeline:
    """Return a Stable Diffusion 3 pipeline of `networks` (transformer, T5) with bundled U-Net models' VAE and CLIPs.

    `folder` holds ``tokenizer_3/`` and ``scheduler/``. The first CLIP text encoder is that of the U-Net model
    `teacher`, the second that of `toyworld-null`.
    """
    vae = AutoencoderKL.from_pretrained(NULL / "vae", torch_dtype=torch.float32)
    vae.register_to_config(shift_factor=0.0)  # Stable Diffusion 3 has one
    first, second = WEIGHTS / teacher, NULL
    return ToyTransformerPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler.from_pretrained(folder / "scheduler"),
        vae=vae.eval(),
        text_encoder=load_clip_tower(first / "text_encoder"),
        tokenizer=CLIPTokenizer.from_pretrained(first / "tokenizer"),
        text_encoder_2=load_clip_tower(second / "text_encoder"),
        tokenizer_2=CLIPTokenizer.from_pretrained(second / "tokenizer"),
        tokenizer_3=T5Tokenizer.from_pretrained(folder / "tokenizer_3"),
        **networks,
    )


def dit_pipeline(name: str, folder: Path, base: Path = DIT) -> ToyTransformerPipeline:
    """Return the pipeline of a bundled diffusion transformer, `toyworld-dit` or `toyworld-dit-null`, float32.

    `base` is the folder of `toyworld-dit`; of another model `folder` has its difference from that.
    """
    parts = load_transformer_and_t5(base)
    if name != DIT.name:
        merge_delta(folder, name, parts)
    return build_transformer_pipeline(parts, base, TEACHERS[name])


def wired_pipeline(name: str, folder: Path) -> WiredPipeline:
    """Return the pipeline of a `WiredTransformer` by model name, float32, with the weights of `toyworld-dit`."""
    parts = dit_pipeline(DIT.name, folder).components
    wire_transformer(parts["transformer"], known_places("wired")[name])
    pipe = WiredPipeline(**parts)
    names = [name for name in parts if name.startswith("text_encoder")]
    encoders = {name: copy_sharing_weights(parts[name]) for name in names}
    pipe.unhooked = ToyTransformerPipeline(**{**parts, **encoders, "transformer": None, "vae": None})
    return pipe
