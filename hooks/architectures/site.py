"""A site: one place where a pipeline is read, and written; and the batch of a call in which it is. Imports no torch."""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hooks.architectures.addresses import DECODING, DENOISING, Place, place
from hooks.errors import HookError

if TYPE_CHECKING:
    from torch import Tensor


_OF_TOKENS = re.compile(
    r"\.cross(\.\d+)?\.(key|value)$|^dit\.(?!.*mod)(.+\.)?text(\.(query|key|value|heads))?$"
)
BY_STEP = "the scheduler makes it: write it through the pipeline's callback_on_step_end"  # of the latents


@dataclass(frozen=True)
class Site:
    """One place to read, and to write where `read_only` is None.

    Attributes
    ----------
    address : str
    module : str
        Path from the pipeline, such as "unet.mid_block.resnets.0".
    default : bool
        Whether it is compared by default; the others are read where they are named.
    read : {"output", "input", "update", "pipeline"}
        Which end of the module is read; "update": what it adds, its output less its input; "pipeline": it is made of
        what the pipeline passes to the denoiser and the decoder, and of what they return.
    element : int
        Number of the tensor, where the module is given or returns several.
    part : (int, int) or None
        Number of a slice and number of slices of the last dimension, where projections are fused.
    heads : int or None
        Heads that the last dimension is divided into.
    stream, sequence : str or None, tuple of str or int
        Where its module runs over a sequence of both streams, the one that is read, and their order
        (`Batch.span`).
    read_only : str or None
        Why no value can be put here, and where to put one instead.
    """

    address: str
    module: str
    default: bool = True
    read: str = "output"
    element: int = 0
    part: tuple[int, int] | None = None
    heads: int | None = None
    stream: str | None = None
    sequence: tuple[str | int, ...] = ()
    read_only: str | None = None

    @functools.cached_property
    def place(self) -> Place:
        """Order, label, space, moment and layer norm, by the address alone."""
        return place(self.address)

    @property
    def space(self) -> str | None:
        """The space it lies in: prompt, denoising or image."""
        return self.place.space

    @property
    def per_step(self) -> bool:
        """Return whether it is read at every call of the denoiser."""
        return self.place.moment == DENOISING

    @property
    def decoded(self) -> bool:
        """Return whether it is read when the image is decoded."""
        return self.place.moment == DECODING

    @property
    def layer_norm(self) -> bool:
        """Return whether its values are compared behind the text encoder's final layer norm."""
        return self.place.layer_norm

    def take(self, whole: Any) -> Tensor:
        """The value here, in what the module was given (its positional arguments) or gave.

        A view of all rows of the batch: what is written into it is written into `whole`.
        """
        return self._view(tensor_of(whole, self.element))

    def of_stream(self, values: Tensor, batch: Batch) -> Tensor:
        """The rows' tokens of this site's stream, of values `take` gave; all where its module has one stream."""
        return values if self.stream is None else batch.of_stream(values, self.stream, self.sequence)

    def give(self, whole: Any, values: Tensor) -> Any:
        """Return what the module was given or gave, with `values` here; `whole` itself stays as it is.

        Where a module returns the tensor twice (a block of the U-Net's way down hands it to the next block and
        to the skip connection), both are replaced.
        """
        self.require_writable()
        tensor = tensor_of(whole, self.element)
        written = tensor.clone()  # as strided as before, so that no kernel downstream computes otherwise
        view = self._view(written)
        if values.shape != view.shape:
            raise HookError(
                f"{self.address}: expected values of shape {tuple(view.shape)}, but got {tuple(values.shape)}"
            )
        view.copy_(values)
        return _replaced(whole, tensor, written)

    def require_writable(self) -> None:
        """Raise a HookError that says why, if no value can be put here."""
        if self.read_only is not None:
            raise HookError(f"{self.address}: cannot be written: {self.read_only}")

    @property
    def of_tokens(self) -> bool:
        """Return whether a row is of a token: in text encoders and streams, cross-attention's keys and values."""
        if self.address == "text.pooled":
            return False
        return self.space == "prompt" or _OF_TOKENS.search(self.address) is not None

    def vectors(self, values: Tensor) -> Tensor:
        """The channels of each place of a picture, row by row, or of each token: shape (rows, places, c).

        A vector has one place; heads stand one after another.
        """
        if values.ndim == 2:
            return values[:, None]
        if values.ndim == 4 and self.heads is None:
            return values.flatten(2).transpose(1, 2)
        return values.flatten(2)

    def attach_reader(self, pipe: Any, receive: Callable[[Tensor], None]) -> Any:
        """Hand what is here, at every run of the module, to `receive`; the hook's handle."""
        import torch

        @torch.no_grad()
        def hook(module: Any, args: tuple[Any, ...], output: Any = None) -> None:
            values = self.take(args if self.read == "input" else output)
            receive(values - self.take(args) if self.read == "update" else values)

        module = module_at(pipe, self.module)
        if self.read == "input":
            return module.register_forward_pre_hook(hook)
        return module.register_forward_hook(hook)

    def attach_writer(self, pipe: Any, change: Callable[[Tensor], Tensor | None]) -> Any:
        """Put what `change` makes of the value here in its place, at every run of the module; the hook's handle.

        It runs before the hooks that are on the module already, so that readers, and what transformers gathers as
        hidden states, see what was written. `change` is handed the value, of all rows of the batch, must not alter it,
        and returns another of this shape, or None to leave it.
        """
        self.require_writable()

        def hook(module: Any, args: tuple[Any, ...], output: Any = None) -> Any:
            whole = args if self.read == "input" else output
            given = self.take(whole)
            value = given - self.take(args) if self.read == "update" else given
            values = change(value)
            if values is None:
                return None
            # what stays of an update leaves the output as it is, to the last bit
            return self.give(whole, given + (values - value) if self.read == "update" else values)

        module = module_at(pipe, self.module)
        if self.read == "input":
            return module.register_forward_pre_hook(hook, prepend=True)
        return module.register_forward_hook(hook, prepend=True)

    def _view(self, tensor: Tensor) -> Tensor:
        if tensor.ndim == 5 and tensor.shape[2] == 1:  # a video of one frame
            tensor = tensor.squeeze(2)
        if self.part is not None:
            index, parts = self.part
            tensor = tensor.chunk(parts, dim=-1)[index]
        if self.heads is not None:
            tensor = tensor.unflatten(-1, (self.heads, -1))
        return tensor


def tensor_of(whole: Any, element: int = 0) -> Tensor:
    """The tensor of a module's output: the output itself, or this element of a tuple or output object."""
    return whole[element] if isinstance(whole, tuple | list | Mapping) else whole


def _replaced(whole: Any, old: Tensor, new: Tensor) -> Any:
    """The same with `new` wherever `old` itself stands."""
    if whole is old:
        return new
    if isinstance(whole, tuple | list):
        return type(whole)(_replaced(one, old, new) for one in whole)
    if isinstance(whole, Mapping):
        changed = copy.copy(whole)
        for name, value in whole.items():
            changed[name] = _replaced(value, old, new)
        return changed
    return whole


def module_at(pipe: Any, path: str) -> Any:
    """The module at a dotted path from the pipeline."""
    return functools.reduce(getattr, path.split("."), pipe)


def has_module(module: Any, path: str) -> bool:
    """Return whether there is a module at a dotted path from another."""
    try:
        return module_at(module, path) is not None
    except AttributeError:
        return False


def children(module: Any, name: str) -> Sequence[Any]:
    """A list of modules under this name, empty if there is none."""
    modules = getattr(module, name, None)
    return [] if modules is None else modules


def attention_parts(
    address: str, path: str, attention: Any, names: tuple[str, str] = ("to_{}", "to_out.0"), **more: Any
) -> Iterator[Site]:
    """Sites of an attention's query, key and value, and of its heads before the output projection.

    `names` are those of its modules, `more` attributes of each site.
    """
    for name in ("query", "key", "value"):
        module, part = names[0].format(name[0]), None
        if runs_fused(attention) and not (attention.is_cross_attention and name == "query"):
            module, parts = ("to_kv", "kv") if attention.is_cross_attention else ("to_qkv", "qkv")
            part = (parts.index(name[0]), len(parts))
        if has_module(attention, module):
            yield Site(f"{address}.{name}", f"{path}.{module}", default=False, part=part, **more)
    if has_module(attention, names[1]):
        heads, end = int(attention.heads), f"{path}.{names[1]}"
        yield Site(f"{address}.heads", end, default=False, read="input", heads=heads, **more)


def runs_fused(attention: Any) -> bool:
    """Return whether the processor in use runs the fused projections (which stay there after unfusing)."""
    processor = type(getattr(attention, "processor", None)).__name__
    return getattr(attention, "fused_projections", False) and processor.startswith("Fused")


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
