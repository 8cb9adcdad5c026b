"""Inputs of a denoiser at a call: the rows of its batch, by branch of guidance. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hooks.errors import HookError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """The call under way: `rows` images, once for each branch, in the order in which they are stacked.

    Attributes
    ----------
    rows : int
    branches : tuple of str
        Names of the branches, of which one is "conditional".
    height, width : int
        Of the latent.
    patch : int
        Side of the square of the latent that a token of the image stands for, in transformers.
    text_tokens : int
        Positions of the text beside those of the image, where both run through one attention.
    """

    rows: int
    branches: tuple[str, ...]
    height: int
    width: int
    patch: int = 1
    text_tokens: int = 0

    @property
    def grid(self) -> tuple[int, int]:
        """Height and width of the image in tokens."""
        return self.height // self.patch, self.width // self.patch

    def span(self, stream: str, sequence: tuple[str | int, ...]) -> slice:
        """Positions of a stream ("image" or "text") among those of a sequence that joins streams in this order."""
        start = self.length(sequence[: sequence.index(stream)])
        return slice(start, start + self.length((stream,)))

    def length(self, sequence: tuple[str | int, ...]) -> int:
        """Positions of a sequence that joins these streams; a number stands for so many of neither."""
        lengths = {"image": self.grid[0] * self.grid[1], "text": self.text_tokens}
        return sum(one if isinstance(one, int) else lengths[one] for one in sequence)

    def branch(self, name: str, values: Tensor, address: str) -> Tensor:
        """Rows of one branch, shape (rows, ...), of values of all branches, shape (rows x branches, ...).

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
        """Rows of the prompts, see :meth:`branch`."""
        return self.branch("conditional", values, address)


@dataclass(frozen=True)
class Inputs:
    """Inputs of a denoiser at one call.

    Attributes
    ----------
    batch : Batch
    timestep : number or Tensor
        As the pipeline passes it.
    latent : Tensor, shape (rows, c, h, w)
        x_t of the prompts' rows.
    text : Tensor, shape (rows, tokens, width)
        States of the text encoders, of the prompts' rows.
    masked : bool
        Whether tokens are masked in attention, so that projections alone do not tell what is attended to.
    pooled : Tensor, shape (rows, width), or None
        The text as one vector, of the prompts' rows, where the denoiser is given one.
    """

    batch: Batch
    timestep: Any
    latent: Tensor
    text: Tensor
    masked: bool
    pooled: Tensor | None = None


@dataclass(frozen=True)
class Call:
    """A call under way: its batch, its number from 0, and how many the pipeline plans (None: unknown)."""

    batch: Batch
    number: int
    planned: int | None
