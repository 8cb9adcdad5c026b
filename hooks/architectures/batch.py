"""Inputs of a denoiser at a call: the rows of its batch, by branch of guidance. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hooks.errors import HookError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """The call under way: `rows` images, once for each branch, in the order in which they are stacked.

    Of a transformer: `patch` is the side of the square of the latent that a token of the image stands for,
    `text_tokens` the positions of the text beside those of the image, where both run through one attention, `lengths`
    those of each row, where they differ; each stream is padded to a `multiple` of so many positions.
    """

    rows: int
    branches: tuple[str, ...]
    height: int
    width: int
    patch: int = 1
    text_tokens: int = 0
    lengths: tuple[int, ...] = ()
    multiple: int = 1

    @property
    def grid(self) -> tuple[int, int]:
        """Height and width of the image in tokens."""
        return self.height // self.patch, self.width // self.patch

    def spans(self, stream: str, sequence: tuple[str | int, ...]) -> list[slice]:
        """Positions of a stream ("image", "text") in a sequence, by row of the prompts.

        A number in `sequence` stands for so many positions of neither.

        Examples
        --------
        >>> Batch(2, ("conditional",), 4, 4, lengths=(3, 5)).spans("image", ("text", "image"))
        [slice(3, 19, None), slice(5, 21, None)]
        >>> Batch(1, ("conditional",), 4, 4, patch=2, text_tokens=7, multiple=32).spans(
        ...     "text", ("image", "text")
        ... )
        [slice(32, 39, None)]
        """
        first = self.branches.index("conditional") * self.rows
        lengths = self.lengths[first : first + self.rows] or (self.text_tokens,) * self.rows
        return [self._span(stream, sequence, text) for text in lengths]

    def span(self, stream: str, sequence: tuple[str | int, ...], rows: Sequence[int]) -> tuple[int, int]:
        """Where a stream and what pads it begin and end in a sequence, which is one in all of these rows of the batch.

        Examples
        --------
        >>> two = ("unconditional", "conditional")
        >>> Batch(2, two, 4, 4, lengths=(1, 3, 5, 5)).span("image", ("text", "image"), [2, 3])
        (5, 21)
        >>> Batch(2, ("conditional",), 4, 4, lengths=(3, 5), multiple=32).span(
        ...     "text", ("image", "text"), [0, 1]
        ... )
        (32, 64)
        """
        lengths = sorted({self.lengths[row] for row in rows}) if self.lengths else [self.text_tokens]
        if len({self._padded("text", one) for one in lengths}) > 1:
            raise HookError(
                f"texts: expected as many tokens of donor and recipient, so that they stand at the same positions, but"
                f" got {' and '.join(map(str, lengths))}: choose words of as many tokens, or write at the text encoder"
            )
        start = self._span(stream, sequence, lengths[0]).start
        return start, start + self._padded(stream, lengths[0])

    def _span(self, stream: str, sequence: tuple[str | int, ...], text: int) -> slice:
        start = sum(self._padded(one, text) for one in sequence[: sequence.index(stream)])
        return slice(start, start + self._length(stream, text))

    def length(self, sequence: tuple[str | int, ...]) -> int:
        """Positions of a sequence that joins these streams: as many as the longest row of the batch has."""
        longest = max(self.lengths, default=self.text_tokens)
        return sum(self._padded(one, longest) for one in sequence)

    def of_stream(self, values: Tensor, stream: str, sequence: tuple[str | int, ...], dim: int = 1) -> Tensor:
        """Positions of a stream along `dim` in values of the prompts' rows; of shorter texts 0 stands at the end."""
        spans, dim = self.spans(stream, sequence), dim % values.ndim
        if all(span == spans[0] for span in spans):
            return values.narrow(dim, spans[0].start, spans[0].stop - spans[0].start)
        from torch.nn.utils.rnn import pad_sequence

        rows = [
            row.narrow(dim - 1, span.start, span.stop - span.start).movedim(dim - 1, 0)
            for row, span in zip(values, spans, strict=True)
        ]
        return pad_sequence(rows, batch_first=True).movedim(1, dim)

    def _length(self, one: str | int, text: int) -> int:
        if isinstance(one, int):
            return one
        return text if one == "text" else self.grid[0] * self.grid[1]

    def _padded(self, one: str | int, text: int) -> int:
        return -(-self._length(one, text) // self.multiple) * self.multiple

    def branch(self, name: str, values: Tensor, address: str) -> Tensor:
        """Rows of one branch, shape (rows, ...), of values of all branches, shape (rows x branches, ...)."""
        if values.shape[0] != self.rows * len(self.branches):
            raise HookError(
                f"{address}: expected {self.rows * len(self.branches)} rows "
                f"({len(self.branches)} x {self.rows} of the batch), but got {values.shape[0]}"
            )
        start = self.branches.index(name) * self.rows
        return values[start : start + self.rows] if len(self.branches) > 1 else values

    def require_images(self, pipe: Any, images: int) -> None:
        """Raise a HookError if these are not the branches of so many images."""
        if images != self.rows:
            rows = self.rows * len(self.branches)
            raise other_branches(pipe, self.branches, rows, f"{images} at scheduler.step")

    def conditional(self, values: Tensor, address: str) -> Tensor:
        """Rows of the prompts, see :meth:`branch`."""
        return self.branch("conditional", values, address)


def other_branches(pipe: Any, branches: Sequence[str], rows: int, got: str) -> HookError:
    """The error where a batch of so many rows does not hold these branches of guidance."""
    return HookError(
        f"{type(pipe).__name__}: expected {len(branches)} rows for each image ({', '.join(branches)}) in the "
        f"denoiser's batch of {rows}, but got {got}: its guidance runs other branches than diffusers' own pipelines: "
        "pass guidance_scale=1, or use the pipeline that it derives from"
    )


@dataclass(frozen=True)
class Inputs:
    """Inputs of a denoiser at one call, of the prompts' rows.

    The latent x_t has shape (rows, c, h, w), the text (rows, tokens, width) and, where the denoiser is given it as one
    vector, `pooled` (rows, width). `masked`: tokens are masked in attention, so that projections alone do not tell what
    is attended to.
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


@dataclass(frozen=True)
class Step:
    """The guided prediction that a scheduler is given, as the pipeline lays it out, its timestep, and x_t."""

    output: Tensor
    timestep: Any
    sample: Tensor
