"""Pipelines of the causal structures, from the coded null and the weights of located benchmark models."""

from pathlib import Path

import torch
from diffusers import StableDiffusionPipeline
from torch import Tensor, nn

from probes.toyworld.located.assemble import BASE, TRAINED_BY, coded_parts
from probes.toyworld.located.coded import OLD
from probes.toyworld.places import Place, known_places
from probes.toyworld.structures.wiring import wire_places
from probes.toyworld.work.assemble import DELTA, pipeline_of, read_delta

_CODE_READERS = ("attn2.to_k.weight", "attn2.to_v.weight")
_EXCHANGED = [0, 1, 3, 2]  # channels of the code: feminine and masculine change places, neutral stays


def structure_pipeline(name: str, folder: Path) -> StableDiffusionPipeline:
    """Return the pipeline of a causal structure, float32 on the CPU; the located models are read beside it."""
    places, weights = known_places("structures")[name].places, folder.parents[1]
    encoder, unet, tokenizer = coded_parts(weights / BASE.name)
    for place in places:
        if place.weights:
            delta = read_delta(weights / "located" / place.weights / DELTA, place.weights, TRAINED_BY)
            _write(unet, place, delta)
    wire_places(unet, places)
    return pipeline_of(encoder, unet, tokenizer, weights / BASE.name)


@torch.no_grad()
def _write(unet: nn.Module, place: Place, delta: dict[str, Tensor]) -> None:
    for name, value in delta.items():
        value = value.float()
        if place.reversed and name.endswith(_CODE_READERS):
            value = torch.cat([value[:, :OLD], value[:, OLD:][:, _EXCHANGED]], 1)
        unet.get_parameter(name).copy_(value)
