"""A site: one place where a pipeline is read, and written. Imports no torch."""

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

    from hooks.architectures.batch import Batch

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
        (`hooks.architectures.batch.Batch.span`).
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
