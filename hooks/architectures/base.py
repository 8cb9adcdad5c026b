"""A site, and what an architecture is: all that probe, recorder, sites and shapes ask of one. Imports no torch.

Another denoiser enters as a class that answers `Architecture`, in a file of its own, and a line in
`hooks.architectures.registry`.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from hooks.architectures.batch import Inputs
from hooks.architectures.places import DECODING, DENOISING, Place
from hooks.errors import HookError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Site:
    """One place to read, and to write where `read_only` is None.

    Attributes
    ----------
    address : str
    module : str
        Path from the pipeline, such as "unet.mid_block.resnets.0".
    place : Place
        What the address alone says: order, label, space, moment, layer norm.
    default : bool
        Whether it is compared unless told otherwise; the others are read where they are named.
    read : {"output", "input", "pipeline"}
        Which end of the module is read; "pipeline": it is made of what the pipeline passes to the denoiser and
        the decoder, and of what they return.
    element : int
        Number of the tensor, where the module is given or returns several.
    part : (int, int) or None
        Number of a slice and number of slices of the last dimension, where projections are fused.
    heads : int or None
        Heads that the last dimension is divided into.
    read_only : str or None
        Why no value can be put here, and where to put one instead.
    """

    address: str
    module: str
    place: Place
    default: bool = True
    read: str = "output"
    element: int = 0
    part: tuple[int, int] | None = None
    heads: int | None = None
    read_only: str | None = None

    @property
    def space(self) -> str | None:
        """The space it lies in: prompt, denoising or image."""
        return self.place.space

    @property
    def per_step(self) -> bool:
        """Whether it is read at every call of the denoiser."""
        return self.place.moment == DENOISING

    @property
    def decoded(self) -> bool:
        """Whether it is read when the image is decoded."""
        return self.place.moment == DECODING

    @property
    def layer_norm(self) -> bool:
        """Whether its values are compared behind the text encoder's final layer norm."""
        return self.place.layer_norm

    def take(self, whole: Any) -> Tensor:
        """The value here, in what the module was given (its positional arguments) or gave.

        Returns
        -------
        Tensor
            A view, of all rows of the batch: what is written into it is written into `whole`.
        """
        return self._view(tensor_of(whole, self.element))

    def give(self, whole: Any, values: Tensor) -> Any:
        """What the module was given or gave, with `values` here; `whole` itself stays as it is.

        Where a module returns the tensor twice (a block of the U-Net's way down hands it to the next block and
        to the skip connection), both are replaced.

        Parameters
        ----------
        whole
            A tensor, a tuple or an output object.
        values : Tensor
            Of the shape that `take` returns, of any dtype and device.

        Raises
        ------
        HookError
            If the site cannot be written, or the shape is another.
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

    def _view(self, tensor: Tensor) -> Tensor:
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


class Architecture(Protocol):
    """What a denoiser's kind decides: which sites there are, what is behind them, how a batch is stacked.

    Text encoders (`hooks.architectures.text_encoders`) and decoder (`hooks.architectures.decoder`) are the same
    for several architectures, which yield their sites too.
    """

    @property
    def pipelines(self) -> tuple[str, ...]:
        """Names of the pipeline classes that draw with it; their subclasses do, too."""

    def place(self, address: str) -> Place | None:
        """What an address alone says, outside the denoiser too; None if it is no address of this architecture."""

    def require_readable(self, pipe: Any) -> None:
        """Raise a HookError if this pipeline cannot be read as it is (compiled modules, say)."""

    def sites(self, pipe: Any) -> Iterator[Site]:
        """All sites, in the order in which they run."""

    def unavailable(self, pipe: Any, address: str) -> str | None:
        """Why a site that others of this architecture have is not there, or None."""

    def denoiser(self, pipe: Any) -> Any:
        """The module that runs at every step."""

    def attentions(self, pipe: Any, kind: str) -> Iterator[tuple[Site, int]]:
        """The attentions of a kind ("cross", "self"), in the order in which they run, each with the side of the
        latent over the side of its grid: 1, 2, 4 or 8."""

    def inputs(self, pipe: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Inputs:
        """What the denoiser is given, by the arguments of its call."""

    def with_texts(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], rows: Sequence[int]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments of the denoiser's call by which each row of the whole batch has the text of the row named."""

    def predictions(
        self, pipe: Any, inputs: Inputs, output: Any, wanted: Collection[str]
    ) -> Iterator[tuple[str, Tensor]]:
        """Address and values of what the denoiser's output says, of the prompts' rows: at least those wanted."""

    def final_latent(self, pipe: Any, given: Tensor) -> Tensor:
        """z0, as the denoiser sees latents, from what the decoder is given."""

    def latent_scale(self, pipe: Any) -> int:
        """Pixels of the image to one of the latent, along a side."""

    def latent_size(self, pipe: Any, height: int | None, width: int | None) -> tuple[int, int]:
        """Height and width of the latent for an image of this size in pixels; None: the model's own size."""

    def without_weights(self, pipe: Any) -> Any:
        """Denoiser and decoder built anew on torch's meta device, under the names that they have in the pipeline."""

    def run_once(self, bare: Any, size: tuple[int, int], tokens: int) -> None:
        """Run what `without_weights` made once, for one image with a latent of this size and so many tokens."""


def module_at(pipe: Any, path: str) -> Any:
    """The module at a dotted path from the pipeline."""
    return functools.reduce(getattr, path.split("."), pipe)


def children(module: Any, name: str) -> Sequence[Any]:
    """A list of modules under this name, empty if there is none."""
    modules = getattr(module, name, None)
    return [] if modules is None else modules
