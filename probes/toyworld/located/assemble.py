"""Pipelines of located benchmark models, from the weights of `toyworld-null` and what is stored of each."""

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from diffusers import StableDiffusionPipeline, UNet2DConditionModel
from safetensors.torch import load_file
from torch import Tensor
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

from probes.errors import UserError
from probes.models.pretrained import from_folder
from probes.toyworld import WEIGHTS
from probes.toyworld.located import coded
from probes.toyworld.located.truth import LocatedModel, Wire, located_models
from probes.toyworld.located.wiring import OLD, head_rows, taught_names, wire_gates
from probes.toyworld.work.assemble import DELTA, EMBEDDING, pipeline_of, read_delta
from probes.toyworld.world import group_of_words

BASE = WEIGHTS / "toyworld-null"
TRAINED_BY = "lab.train.located.train"


def word_numbers(tokenizer: CLIPTokenizer) -> dict[str, int]:
    """The token of each indicator word."""
    return {word: tokenizer.convert_tokens_to_ids(f"{word}</w>") for word in group_of_words()}


def coded_parts(base: Path = BASE) -> tuple[CLIPTextModel, UNet2DConditionModel, CLIPTokenizer]:
    """Text tower and U-Net of the coded null, float32, and the tokenizer."""
    tokenizer = from_folder(CLIPTokenizer, base / "tokenizer")
    config = coded.text_config(json.loads((base / "text_encoder/config.json").read_text()))
    encoder = CLIPTextModel(CLIPTextConfig.from_dict({**config, "dtype": "float32"}))
    state = coded.text_state(load_file(base / "text_encoder/model.safetensors"), word_numbers(tokenizer))
    encoder.load_state_dict({name: value.float() for name, value in state.items()})
    unet = UNet2DConditionModel.from_config(
        coded.unet_config(json.loads((base / "unet/config.json").read_text()))
    )
    stored = load_file(base / "unet/diffusion_pytorch_model.safetensors")
    unet.load_state_dict(coded.unet_state({name: value.float() for name, value in stored.items()}))
    return encoder.eval(), unet.eval(), tokenizer


def located_pipeline(name: str, folder: Path, base: Path = BASE) -> StableDiffusionPipeline:
    """Return the pipeline of a located benchmark model, float32 on the CPU.

    Parameters
    ----------
    name : str
        One of :func:`probes.toyworld.located.truth.located_models`.
    folder : pathlib.Path
        Where what it was taught is stored, as ``delta.safetensors``.
    base : pathlib.Path
        `toyworld-null`.

    Raises
    ------
    UserError
        It was not taught yet, or what is stored is damaged or of another wiring.
    """
    model = located_models()[name]
    encoder, unet, tokenizer = coded_parts(base)
    if model.kind == "decoy":
        write_decoy(unet, model.wires[0])
    if model.taught:
        write_delta(model, encoder, unet, tokenizer, read_delta(folder / DELTA, name, TRAINED_BY))
    wire_gates(unet, model.wires)
    return pipeline_of(encoder, unet, tokenizer, base)


@torch.no_grad()
def write_delta(
    model: LocatedModel,
    encoder: CLIPTextModel,
    unet: UNet2DConditionModel,
    tokenizer: CLIPTokenizer,
    delta: Mapping[str, Tensor],
) -> None:
    """Put what a benchmark model was trained to into the coded null.

    Parameters
    ----------
    delta : mapping of str to Tensor
        Whole weights by the U-Net's names; by ``token_embedding.WORD`` the old channels ``(96,)`` of the embedding of
        all words that mean the same as this one and have its number.

    Raises
    ------
    UserError
        The names are not those that the benchmark model's wires have.
    """
    expected = {name for wire in model.wires for name in taught_names(unet, wire)}
    if not model.wires:
        expected = {f"{EMBEDDING}.{word}" for word in embedded_words()}
    odd = sorted(set(delta) ^ expected)
    if odd:
        raise UserError(
            f"model {model.name}: {DELTA}: expected what its wires have, which differs in {odd[0]}: train it anew"
        )
    numbers = word_numbers(tokenizer)
    for name, value in delta.items():
        if model.wires:
            unet.get_parameter(name).copy_(value.float())
        else:
            rows = [numbers[word] for word in same_words(name.removeprefix(f"{EMBEDDING}."))]
            encoder.get_input_embeddings().weight[rows, :OLD] = value.float()


def same_words(word: str) -> list[str]:
    """The words that mean the same as a word and have its number, itself among them."""
    words = group_of_words()
    return [other for other, kind in words.items() if kind == words[word]]


def embedded_words() -> list[str]:
    """The first feminine and masculine word of each number: what `toyworld-embedding` was taught."""
    groups = {tuple(same_words(word)) for word, (group, _) in group_of_words().items() if group != "neutral"}
    return sorted(words[0] for words in groups)


@torch.no_grad()
def write_decoy(unet: UNet2DConditionModel, wire: Wire) -> None:
    """Let one head's keys and values read the code, and nothing read that head.

    The columns are signs in a fixed pattern, about as large as what training finds.
    """
    attention = unet.get_submodule(f"{wire.block}.attn2")
    channels = attention.to_k.out_features
    rows = head_rows(wire, channels)
    codes = torch.tensor(list(coded.CODES.values()))
    pattern = codes[torch.arange(channels) % len(codes)] / 16
    for linear in (attention.to_k, attention.to_v):
        linear.weight[rows, OLD:] = pattern[rows]
    attention.to_out[0].weight[:, rows] = 0.0
