"""A site, a point where a pipeline is read and written; and the batch of a denoiser call. Imports no torch."""

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
    """A named point of a pipeline whose activations can be read, and written where `read_only` is None.

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
    width : int or None
        The first channels of the last dimension, which alone are sliced, where a feed-forward is fused behind them.
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
    width: int | None = None
    heads: int | None = None
    stream: str | None = None
    sequence: tuple[str | int, ...] = ()
    read_only: str | None = None

    @functools.cached_property
    def place(self) -> Place:
        """The `Place` of this address in the network: sort order, label, space, moment and layer norm."""
        return place(self.address)

    @property
    def space(self) -> str | None:
        """The space of the activations here: "prompt", "denoising" or "image"; None for an unknown address."""
        return self.place.space

    @property
    def per_step(self) -> bool:
        """Return whether this site has a value at every call of the denoiser."""
        return self.place.moment == DENOISING

    @property
    def decoded(self) -> bool:
        """Return whether this site has its value after denoising: the final latent, the VAE decoder, the image."""
        return self.place.moment == DECODING

    @property
    def layer_norm(self) -> bool:
        """Return whether values here are compared after applying the text encoder's final layer norm to them."""
        return self.place.layer_norm

    def values_in(self, container: Any) -> Tensor:
        """A view of this site's values, all rows of the batch, in its module's positional arguments or output.

        What is written into the view is written into `container`.
        """
        return self._select_view(tensor_of(container, self.element))

    def stream_tokens(self, values: Tensor, batch: Batch) -> Tensor:
        """Values at the positions of this site's stream (image or text) alone; all if its module has one stream."""
        return values if self.stream is None else batch.narrow(values, self.stream, self.sequence)

    def replace_in(self, container: Any, values: Tensor) -> Any:
        """Return a copy of the module's arguments or output (`container`) with other `values` at this site.

        Raises a HookError at a read-only site and for values of another shape. Where a module returns the tensor twice
        (a U-Net's down block, to the next block and to the skip connection), both are replaced.
        """
        self.require_writable()
        tensor = tensor_of(container, self.element)
        written = tensor.clone()  # as strided as before, so that no kernel downstream computes otherwise
        view = self._select_view(written)
        if values.shape != view.shape:
            raise HookError(
                f"{self.address}: expected values of shape {tuple(view.shape)}, but got {tuple(values.shape)}"
            )
        view.copy_(values)
        return _replace_tensor(container, tensor, written)

    def require_writable(self) -> None:
        """Raise a HookError with the reason if this site is read-only."""
        if self.read_only is not None:
            raise HookError(f"{self.address}: cannot be written: {self.read_only}")

    @property
    def is_by_token(self) -> bool:
        """Return whether an image's values hold one vector per text token (not so the pooled text)."""
        if self.address == "text.pooled":
            return False
        return self.space == "prompt" or _OF_TOKENS.search(self.address) is not None

    def vectors(self, values: Tensor) -> Tensor:
        """Values as one channel vector for each pixel or token, shape (rows, positions, channels).

        Values of shape (rows, channels) have one position; the heads' channels are joined.
        """
        if values.ndim == 2:
            return values[:, None]
        if values.ndim == 4 and self.heads is None:
            return values.flatten(2).transpose(1, 2)
        return values.flatten(2)

    def attach_reader(self, pipe: Any, receive: Callable[[Tensor], None]) -> Any:
        """Register a hook that calls `receive` with this site's values at each run of its module; return the handle."""
        import torch

        @torch.no_grad()
        def hook(module: Any, args: tuple[Any, ...], output: Any = None) -> None:
            """Pass the site's values to `receive`."""
            values = self.values_in(args if self.read == "input" else output)
            receive(values - self.values_in(args) if self.read == "update" else values)

        module = module_at(pipe, self.module)
        if self.read == "input":
            return module.register_forward_pre_hook(hook)
        return module.register_forward_hook(hook)

    def attach_writer(self, pipe: Any, change: Callable[[Tensor], Tensor | None]) -> Any:
        """Register a hook that replaces this site's values by `change(values)` at each run; return the handle.

        It runs before the hooks that are on the module already, so that readers, and what transformers gathers as
        hidden states, see what was written. `change` gets the values of all rows of the batch, must not alter them,
        and returns others of this shape, or None to leave them. Raises a HookError at a read-only site.
        """
        self.require_writable()

        def hook(module: Any, args: tuple[Any, ...], output: Any = None) -> Any:
            """Return the module's arguments or output with changed values; None if they stay."""
            container = args if self.read == "input" else output
            held = self.values_in(container)
            values = held - self.values_in(args) if self.read == "update" else held
            changed = change(values)
            if changed is None:
                return None
            # what stays of an update leaves the output as it is, to the last bit
            return self.replace_in(container, held + (changed - values) if self.read == "update" else changed)

        module = module_at(pipe, self.module)
        if self.read == "input":
            return module.register_forward_pre_hook(hook, prepend=True)
        return module.register_forward_hook(hook, prepend=True)

    def _select_view(self, tensor: Tensor) -> Tensor:
        """A view of the slice of a module's tensor that this site reads, with heads as a dimension if it has them."""
        if tensor.ndim == 5 and tensor.shape[2] == 1:  # a video of one frame
            tensor = tensor.squeeze(2)
        if self.part is not None:
            index, parts = self.part
            tensor = tensor[..., : self.width].chunk(parts, dim=-1)[index]
        if self.heads is not None:
            tensor = tensor.unflatten(-1, (self.heads, -1))
        return tensor


def tensor_of(output: Any, element: int = 0) -> Tensor:
    """The tensor in a module's output: the output itself, or an element of a tuple, list or mapping."""
    return output[element] if isinstance(output, tuple | list | Mapping) else output


def _replace_tensor(container: Any, old: Tensor, new: Tensor) -> Any:
    """A copy of nested tuples, lists and mappings in which the object `old` is replaced by `new`."""
    if container is old:
        return new
    if isinstance(container, tuple | list):
        return type(container)(_replace_tensor(item, old, new) for item in container)
    if isinstance(container, Mapping):
        changed = copy.copy(container)
        for name, value in container.items():
            changed[name] = _replace_tensor(value, old, new)
        return changed
    return container


def module_at(pipe: Any, path: str) -> Any:
    """The module at a dotted path from a pipeline or module; AttributeError if there is none."""
    return functools.reduce(getattr, path.split("."), pipe)


def has_module(module: Any, path: str) -> bool:
    """Return whether `module` has a submodule at a dotted path that is not None."""
    try:
        return module_at(module, path) is not None
    except AttributeError:
        return False


def children(module: Any, name: str) -> Sequence[Any]:
    """The submodules that `module` has in a list, its attribute `name`; empty if that is missing or None."""
    modules = getattr(module, name, None)
    return [] if modules is None else modules


def head_count(attention: Any) -> int:
    """The number of heads of an attention module."""
    return int(attention.heads if hasattr(attention, "heads") else attention.num_heads)


def attention_part_sites(
    address: str, path: str, attention: Any, names: tuple[str, str] = ("to_{}", "to_out.0"), **attributes: Any
) -> Iterator[Site]:
    """Sites of query, key, value and head outputs of an attention, as far as it has modules for them.

    `names` are those of the projections ({} for q, k, v) and of the output projection; `attributes` those of `Site`.
    """
    processor = type(getattr(attention, "processor", None)).__name__
    fused = getattr(attention, "fused_projections", False) and processor.startswith("Fused")
    if has_module(attention, "to_qkv_mlp_proj"):  # FLUX.2's: queries, keys, values, then the feed-forward
        inner, heads = int(attention.inner_dim), int(attention.heads)
        for number, name in enumerate(("query", "key", "value")):
            more = {"part": (number, 3), "width": 3 * inner, **attributes}
            yield Site(f"{address}.{name}", f"{path}.to_qkv_mlp_proj", default=False, **more)
        more = {"part": (0, 1), "width": inner, "heads": heads, **attributes}
        yield Site(f"{address}.heads", f"{path}.to_out", default=False, read="input", **more)
        return
    for name in ("query", "key", "value"):
        module, part = names[0].format(name[0]), None
        if fused and not (attention.is_cross_attention and name == "query"):
            module, parts = ("to_kv", "kv") if attention.is_cross_attention else ("to_qkv", "qkv")
            part = (parts.index(name[0]), len(parts))
        if has_module(attention, module):
            yield Site(f"{address}.{name}", f"{path}.{module}", default=False, part=part, **attributes)
    if has_module(attention, names[1]):
        heads, end = head_count(attention), f"{path}.{names[1]}"
        yield Site(f"{address}.heads", end, default=False, read="input", heads=heads, **attributes)


@dataclass(frozen=True)
class Batch:
    """Layout of the denoiser's batch at one call: `rows` images, once for each branch of guidance, in this order.

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
        """(height, width) of the latent in image tokens (patches)."""
        return self.height // self.patch, self.width // self.patch

    def spans(self, stream: str, sequence: tuple[str | int, ...]) -> list[slice]:
        """Slice of a stream ("image" or "text") in a joint `sequence` of streams, for each conditional batch row.

        A number in `sequence` stands for so many positions of neither stream.

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
        return [self._stream_span(stream, sequence, text) for text in lengths]

    def span(self, stream: str, sequence: tuple[str | int, ...], rows: Sequence[int]) -> tuple[int, int]:
        """Start and end of a stream, with padding, in a joint `sequence` of streams; a HookError if the `rows` differ.

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
        if len({self._padded_length("text", length) for length in lengths}) > 1:
            raise HookError(
                f"texts: expected as many tokens of donor and recipient, so that they stand at the same positions, but"
                f" got {' and '.join(map(str, lengths))}: choose words of as many tokens, or write at the text encoder"
            )
        start = self._stream_span(stream, sequence, lengths[0]).start
        return start, start + self._padded_length(stream, lengths[0])

    def _stream_span(self, stream: str, sequence: tuple[str | int, ...], text_tokens: int) -> slice:
        """Slice of a stream, without padding, in a joint `sequence` of streams with a text of so many tokens."""
        start = sum(self._padded_length(before, text_tokens) for before in sequence[: sequence.index(stream)])
        return slice(start, start + self._stream_length(stream, text_tokens))

    def sequence_length(self, sequence: tuple[str | int, ...]) -> int:
        """Number of positions of a joint `sequence` of streams, with padding, for the longest text of the batch."""
        longest = max(self.lengths, default=self.text_tokens)
        return sum(self._padded_length(stream, longest) for stream in sequence)

    def narrow(self, values: Tensor, stream: str, sequence: tuple[str | int, ...], dim: int = 1) -> Tensor:
        """Values of conditional rows at the positions of a stream along `dim`; shorter rows are filled with zeros."""
        spans, dim = self.spans(stream, sequence), dim % values.ndim
        if all(span == spans[0] for span in spans):
            return values.narrow(dim, spans[0].start, spans[0].stop - spans[0].start)
        from torch.nn.utils.rnn import pad_sequence

        rows = [
            row.narrow(dim - 1, span.start, span.stop - span.start).movedim(dim - 1, 0)
            for row, span in zip(values, spans, strict=True)
        ]
        return pad_sequence(rows, batch_first=True).movedim(1, dim)

    def _stream_length(self, stream: str | int, text_tokens: int) -> int:
        """Number of positions of "text" or "image"; a number is that of other positions."""
        if isinstance(stream, int):
            return stream
        return text_tokens if stream == "text" else self.grid[0] * self.grid[1]

    def _padded_length(self, stream: str | int, text_tokens: int) -> int:
        """Number of positions of a stream with padding: rounded up to the multiple of this batch."""
        return -(-self._stream_length(stream, text_tokens) // self.multiple) * self.multiple

    def branch(self, name: str, values: Tensor, address: str) -> Tensor:
        """Values (rows, ...) of one branch of guidance, out of those of all branches; HookError for a wrong number."""
        if values.shape[0] != self.rows * len(self.branches):
            raise HookError(
                f"{address}: expected {self.rows * len(self.branches)} rows "
                f"({len(self.branches)} x {self.rows} of the batch), but got {values.shape[0]}"
            )
        start = self.branches.index(name) * self.rows
        return values[start : start + self.rows] if len(self.branches) > 1 else values

    def require_images(self, pipe: Any, images: int) -> None:
        """Raise a HookError if the number of images that the scheduler is given is not that of this batch."""
        if images != self.rows:
            rows = self.rows * len(self.branches)
            raise branches_error(pipe, self.branches, rows, f"{images} at scheduler.step")

    def conditional(self, values: Tensor, address: str) -> Tensor:
        """Values (rows, ...) of the conditional branch, that of the prompts, out of those of all branches."""
        return self.branch("conditional", values, address)


def branches_error(pipe: Any, branches: Sequence[str], rows: int, got: str) -> HookError:
    """The HookError for a denoiser's batch with a number of rows that does not fit the branches of guidance."""
    return HookError(
        f"{type(pipe).__name__}: expected {len(branches)} rows for each image ({', '.join(branches)}) in the "
        f"denoiser's batch of {rows}, but got {got}: its guidance runs other branches than diffusers' own pipelines: "
        "pass guidance_scale=1, or use the pipeline that it derives from"
    )


@dataclass(frozen=True)
class Inputs:
    """Inputs of the denoiser at one call, for the rows of the conditional branch.

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
    """A call of the denoiser: its batch, its number from 0, and the number of calls planned (None: unknown)."""

    batch: Batch
    number: int
    planned: int | None


@dataclass(frozen=True)
class Step:
    """Arguments of `scheduler.step`: the guided prediction in the pipeline's own shape, the timestep, and x_t."""

    output: Tensor
    timestep: Any
    sample: Tensor
