"""Pipelines of located benchmark models, from the weights of `toyworld-null` and what is stored of each."""

import json
from pathlib import Path

import torch
from diffusers import StableDiffusionPipeline, UNet2DConditionModel
from safetensors.torch import load_file
from torch import Tensor
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

from probes.toyworld import WEIGHTS
from probes.toyworld.located import coded
from probes.toyworld.places import KnownPlaces, known_places
from probes.toyworld.work.assemble import pipeline_of, read_delta
from probes.toyworld.world import group_of_words

BASE = WEIGHTS / "toyworld-null"


def word_numbers(tokenizer: CLIPTokenizer) -> dict[str, int]:
    """The token of each indicator word."""
    return {word: tokenizer.convert_tokens_to_ids(f"{word}</w>") for word in group_of_words()}


def coded_parts(base: Path = BASE) -> tuple[CLIPTextModel, UNet2DConditionModel, CLIPTokenizer]:
    """Text tower and U-Net of the coded null, float32, and the tokenizer."""
    tokenizer = CLIPTokenizer.from_pretrained(base / "tokenizer")
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


@torch.no_grad()
def located_pipeline(name: str, folder: Path) -> StableDiffusionPipeline:
    """Return the pipeline of a located benchmark model, float32 on the CPU."""
    model = known_places("located")[name]
    encoder, unet, tokenizer = coded_parts()
    if model.sites:
        for parameter, value in own_weights(model, unet, folder).items():
            unet.get_parameter(parameter).copy_(value.float())
    return pipeline_of(encoder, unet, tokenizer, BASE)


def own_weights(model: KnownPlaces, unet: UNet2DConditionModel, folder: Path) -> dict[str, Tensor]:
    """Return what a located model has in place of weights of the coded null, by the U-Net's names."""
    names = [name for place in model.places for name in coded.taught_names(unet, place.block)]
    return read_delta(folder, model.name, names)
