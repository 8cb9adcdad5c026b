"""Sparse autoencoders: the activation of a site as a sum of few directions, each with a latent that says how much.

A vector of channels x is encoded as z = f((x - b) E + e) and decoded as z D + b: E the encoder, D the decoder, whose
rows are the directions, b the bias that both share. f keeps the k largest latents (TopK; Gao et al. 2024,
https://arxiv.org/abs/2406.04093), or those above a threshold (0: ReLU; else JumpReLU).
`probes.models.autoencoders` reads files of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hooks.errors import HookError


@dataclass(frozen=True, eq=False, repr=False)
class SparseAutoencoder:
    """A sparse autoencoder: encodes activation vectors (width,) of a site as latents (n_latents,), and decodes them.

    Attributes
    ----------
    encoder : Tensor, shape (width, n_latents), float32
    encoder_bias : Tensor, shape (n_latents,)
    decoder : Tensor, shape (n_latents, width)
        Directions, one a row.
    bias : Tensor, shape (width,)
        Added by the decoder; taken off before the encoder where `subtracts_bias`.
    k : int, optional
        Latents that are kept of a vector: the k largest, where they are positive. All above `threshold`, by default.
    threshold : Tensor, shape (n_latents,), optional
        Below which a latent is 0.
    subtracts_bias : bool
    site : str
        Address of the site that it was trained on; empty where that is not known.

    Raises
    ------
    HookError
        If the shapes do not go together.
    """

    encoder: Tensor
    encoder_bias: Tensor
    decoder: Tensor
    bias: Tensor
    k: int | None = None
    threshold: Tensor | None = None
    subtracts_bias: bool = True
    site: str = ""

    def __post_init__(self) -> None:
        """Raise HookError if the shapes do not go together or `k` is not from 1 to the number of latents."""
        width, latents = self.encoder.shape
        expected = {"encoder_bias": (latents,), "decoder": (latents, width), "bias": (width,)}
        for name, shape in expected.items():
            if (got := tuple(getattr(self, name).shape)) != shape:
                raise HookError(
                    f"SparseAutoencoder: {name}: expected shape {shape} beside an encoder of {width} x {latents},"
                    f" but got {got}"
                )
        if self.k is not None and not 1 <= self.k <= latents:
            raise HookError(f"SparseAutoencoder: k: expected a number from 1 to {latents}, but got {self.k}")

    def __repr__(self) -> str:
        kind = f"k={self.k}" if self.k else "ReLU" if self.threshold is None else "JumpReLU"
        site = f", site={self.site!r}" if self.site else ""
        return f"SparseAutoencoder({self.width} channels, {self.latents} latents, {kind}{site})"

    @property
    def width(self) -> int:
        """Number of channels of the vectors that are encoded."""
        return self.encoder.shape[0]

    @property
    def latents(self) -> int:
        """Number of latents."""
        return self.encoder.shape[1]

    def to(self, device: torch.device) -> SparseAutoencoder:
        """Return this autoencoder with its tensors on a device."""
        tensors = {name: value.to(device) for name, value in vars(self).items() if isinstance(value, Tensor)}
        return replace(self, **tensors)

    def encode(self, vectors: Tensor) -> Tensor:
        """Return the latents (..., n_latents) of activation vectors (..., width); HookError if their width differs.

        Parameters
        ----------
        vectors : Tensor, shape (..., width)

        Returns
        -------
        Tensor, shape (..., n_latents), float32
            On the device of `vectors`; never negative.

        Raises
        ------
        HookError
            If the vectors are of another width.
        """
        self.require_width(vectors.shape[-1], "SparseAutoencoder")
        values = vectors.float()
        if self.subtracts_bias:
            values = values - self.bias.to(values)
        before = values @ self.encoder.to(values) + self.encoder_bias.to(values)
        if self.k is not None:
            top = before.topk(self.k, dim=-1)
            return torch.zeros_like(before).scatter(-1, top.indices, top.values.relu())
        if self.threshold is None:
            return before.relu()
        return before.relu() * (before > self.threshold.to(before).relu())

    def decode(self, latents: Tensor) -> Tensor:
        """Return the activation vectors (..., width), float32, that latents (..., n_latents) are decoded to."""
        return latents.float() @ self.decoder.to(latents.device) + self.bias.to(latents.device)

    def replace_latents(
        self, vectors: Tensor, latents: Sequence[int], change: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """Return activation vectors after a change of some latents; what the autoencoder does not explain is kept.

        Parameters
        ----------
        vectors : Tensor, shape (..., width)
        latents : sequence of int
            Numbers of the latents that are changed.
        change : callable
            Is called with the values of these latents, shape (..., len(latents)), and returns the new values.

        Returns
        -------
        Tensor, shape (..., width), float32
        """
        before = self.encode(vectors)[..., list(latents)]
        directions = self.decoder.to(before.device)[list(latents)]
        return vectors.float() + (change(before) - before) @ directions

    def require_width(self, width: int, place: str) -> None:
        """Raise HookError, with `place` at its start, unless `width` is the number of channels of the autoencoder."""
        if width != self.width:
            raise HookError(
                f"{place}: expected vectors of {self.width} channels, as the autoencoder takes, but got {width}: it"
                " belongs to another site or model"
            )
