"""Pipelines of the causal structures, from the coded null and the weights of located benchmark models."""

from pathlib import Path

import torch
from diffusers import StableDiffusionPipeline
from torch import Tensor, nn

from probes.errors import UserError
from probes.toyworld import WEIGHTS
from probes.toyworld.located.assemble import BASE, TRAINED_BY, coded_parts
from probes.toyworld.located.truth import Wire
from probes.toyworld.located.wiring import OLD, wire_gates
from probes.toyworld.structures.truth import StructurePlace, all_structures
from probes.toyworld.structures.wiring import add_choosing_head, wire_places
from probes.toyworld.work.assemble import DELTA, pipeline_of, read_delta

FITTED_BY = "lab.train.structures.choice"
_CODE_READERS = ("attn2.to_k.weight", "attn2.to_v.weight")
_EXCHANGED = [0, 1, 3, 2]  # channels of the code: feminine and masculine change places, neutral stays


def structure_pipeline(name: str, weights: Path = WEIGHTS) -> StableDiffusionPipeline:
    """Return the pipeline of a causal structure, float32 on the CPU.

    Parameters
    ----------
    name : str
        One of :func:`probes.toyworld.structures.truth.all_structures`.
    weights : pathlib.Path
        Folder of the bundled models.

    Raises
    ------
    UserError
        What is stored of a located benchmark model, or of a place that chooses, is missing or damaged.
    """
    structure = all_structures()[name]
    encoder, unet, tokenizer = coded_parts(weights / BASE.name)
    for place in structure.places:
        if place.weights:
            delta = read_delta(weights / "located" / place.weights / DELTA, place.weights, TRAINED_BY)
            _write(unet, place, delta)
        if place.chooses:
            stored = read_delta(weights / "structures" / name / DELTA, name, FITTED_BY)
            if set(stored) != {"direction", "offset"}:
                raise UserError(
                    f"model {name}: {DELTA}: expected a direction and an offset, got {sorted(stored)}: fit it anew"
                )
            add_choosing_head(unet.get_submodule(f"{place.block}.attn1"), **stored)
    wire_gates(unet, [Wire(place.site, times=place.times) for place in structure.places])
    wire_places(unet, structure.places, structure.spoken)
    return pipeline_of(encoder, unet, tokenizer, weights / BASE.name)


@torch.no_grad()
def _write(unet: nn.Module, place: StructurePlace, delta: dict[str, Tensor]) -> None:
    for name, value in delta.items():
        value = value.float()
        if place.reversed and name.endswith(_CODE_READERS):
            value = torch.cat([value[:, :OLD], value[:, OLD:][:, _EXCHANGED]], 1)
        unet.get_parameter(name).copy_(value)
