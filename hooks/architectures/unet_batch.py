"""Order of a pipeline's guidance branches in one UNet batch. Imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hooks.architectures.batch import Batch, other_branches

if TYPE_CHECKING:
    from torch import Tensor

GUIDED = ("unconditional", "conditional")
THREE_WAY = ("conditional", "image", "unconditional")  # InstructPix2Pix; "image": the image without the text
UNGUIDED = ("conditional",)


def three_way(pipe: Any) -> bool:
    """Return whether guidance runs three branches, over the text and over an image."""
    return any(base.__name__ == "StableDiffusionInstructPix2PixPipeline" for base in type(pipe).__mro__)


def batch_of(pipe: Any, sample: Tensor) -> Batch:
    """The batch that the UNet is given now; refuses rows that do not divide by the guidance's branches."""
    branches = UNGUIDED
    if getattr(pipe, "do_classifier_free_guidance", False):
        branches = THREE_WAY if three_way(pipe) else GUIDED
    if sample.shape[0] % len(branches):
        raise other_branches(pipe, branches, len(sample), "a number that they do not divide")
    return Batch(sample.shape[0] // len(branches), branches, *sample.shape[-2:])
