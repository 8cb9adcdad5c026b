"""How a pipeline stacks its guidance branches in one UNet batch, and which rows are the prompts'."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from hooks.errors import HookError

GUIDED = ("unconditional", "conditional")
THREE_WAY = ("conditional", "image", "unconditional")  # InstructPix2Pix; "image": the image without the text
UNGUIDED = ("conditional",)


@dataclass(frozen=True)
class Batch:
    """The UNet call under way: `rows` images, once for each branch, in the order in which they are stacked.

    Attributes
    ----------
    rows : int
    branches : tuple of str
        `GUIDED`, `THREE_WAY` or `UNGUIDED`.
    height, width : int
        Of the latent.
    """

    rows: int
    branches: tuple[str, ...]
    height: int
    width: int

    def branch(self, name: str, values: Tensor, address: str) -> Tensor:
        """Rows of one branch.

        Raises
        ------
        HookError
            If `values` has not `rows` rows for each branch.
        """
        if values.shape[0] != self.rows * len(self.branches):
            raise HookError(
                f"{address}: expected {self.rows * len(self.branches)} rows "
                f"({len(self.branches)} x {self.rows} of the batch), but got {values.shape[0]}"
            )
        start = self.branches.index(name) * self.rows
        return values[start : start + self.rows] if len(self.branches) > 1 else values

    def conditional(self, values: Tensor, address: str) -> Tensor:
        """Rows of the prompts."""
        return self.branch("conditional", values, address)


def three_way(pipe: Any) -> bool:
    """Whether guidance runs three branches, over the text and over an image."""
    return any(base.__name__ == "StableDiffusionInstructPix2PixPipeline" for base in type(pipe).__mro__)


def batch_of(pipe: Any, sample: Tensor) -> Batch:
    """The batch that the UNet is given now.

    Parameters
    ----------
    sample : Tensor, shape (rows * branches, c, h, w)

    Raises
    ------
    HookError
        If the rows do not divide by the branches that the pipeline's guidance has.
    """
    branches = UNGUIDED
    if getattr(pipe, "do_classifier_free_guidance", False):
        branches = THREE_WAY if three_way(pipe) else GUIDED
    if sample.shape[0] % len(branches):
        raise HookError(
            f"UNet: expected a multiple of {len(branches)} rows under guidance, but got {sample.shape[0]} rows"
        )
    return Batch(sample.shape[0] // len(branches), branches, *sample.shape[-2:])


@dataclass(frozen=True)
class Call:
    """A UNet call under way: its batch, its number from 0, and how many the pipeline plans (None: unknown)."""

    batch: Batch
    number: int
    planned: int | None
