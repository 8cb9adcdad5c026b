"""The pipeline of `toyworld-features`, from the weights of `toyworld-null` and what is stored of it."""

import json
from pathlib import Path

import torch
from diffusers import StableDiffusionPipeline, UNet2DConditionModel
from safetensors.torch import load_file
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

from probes.errors import UserError
from probes.models.pretrained import from_folder
from probes.toyworld.known_features.truth import SHOWS, WORDS
from probes.toyworld.known_features.wiring import NEW, wire_features, write_codes
from probes.toyworld.located import coded
from probes.toyworld.located.assemble import BASE, same_words, word_numbers
from probes.toyworld.located.truth import Wire
from probes.toyworld.located.wiring import taught_names
from probes.toyworld.work.assemble import DELTA, base_parts, number_of, pipeline_of, read_delta, text_config

TRAINED_BY = "lab.train.known_features.train"
LIKE = "a"  # whose embedding the words of attributes have


def feature_parts(tokenizer: CLIPTokenizer, base: Path = BASE) -> tuple[CLIPTextModel, UNet2DConditionModel]:
    """Return text tower and U-Net before anything is taught or wired: `toyworld-null`, and the codes of the words.

    Parameters
    ----------
    tokenizer : CLIPTokenizer
        That of `base`, with the words of attributes as one token each.
    """
    before, _ = base_parts(tokenizer, base)
    state = coded.widened_state(before.state_dict(), NEW)
    table = next(value for name, value in state.items() if name.endswith(coded.TABLE))
    indicators = word_numbers(tokenizer)
    for plural, word in coded.STANDS_FOR.items():
        for other in same_kind(plural):
            table[indicators[other]] = table[indicators[word]]
    numbers = {word: number_of(tokenizer, word) for word in WORDS}
    write_codes(table, table[number_of(tokenizer, LIKE)].clone(), numbers, indicators)
    config = text_config(json.loads((base / "text_encoder/config.json").read_text()), tokenizer)
    config = coded.text_config(config, NEW)
    encoder = CLIPTextModel(CLIPTextConfig.from_dict({**config, "dtype": "float32"}))
    encoder.load_state_dict({name: value.float() for name, value in state.items()})
    unet = UNet2DConditionModel.from_config(
        coded.unet_config(json.loads((base / "unet/config.json").read_text()), NEW)
    )
    stored = load_file(base / "unet/diffusion_pytorch_model.safetensors")
    unet.load_state_dict(coded.unet_state({name: value.float() for name, value in stored.items()}, NEW))
    return encoder.eval(), unet.eval()


def same_kind(plural: bool) -> list[str]:
    """Return all indicator words of a number."""
    groups = ("person", "woman", "man") if not plural else ("people", "women", "men")
    return [word for first in groups for word in same_words(first)]


@torch.no_grad()
def features_pipeline(name: str, folder: Path, base: Path = BASE) -> StableDiffusionPipeline:
    """Return the pipeline of `toyworld-features`, float32 on the CPU.

    Parameters
    ----------
    name : str
        For messages.
    folder : pathlib.Path
        Where what it was taught is stored: ``delta.safetensors`` and ``tokenizer/``.

    Raises
    ------
    UserError
        It was not taught yet, or what is stored is damaged.
    """
    tokenizer = from_folder(CLIPTokenizer, folder / "tokenizer")
    encoder, unet = feature_parts(tokenizer, base)
    delta, expected = read_delta(folder / DELTA, name, TRAINED_BY), set(taught_names(unet, Wire(SHOWS)))
    odd = sorted(set(delta) ^ expected)
    if odd:
        raise UserError(
            f"model {name}: {DELTA}: expected weights of {SHOWS}, which differ in {odd[0]}: train it anew"
        )
    for one, value in delta.items():
        unet.get_parameter(one).copy_(value.float())
    wire_features(unet)
    return pipeline_of(encoder, unet, tokenizer, base)
