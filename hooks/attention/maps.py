"""Attention maps of a block as arrays: heat maps by definition, and the sums of every layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hooks.attention import definitions
from hooks.attention.masks import resize, word_heat
from hooks.errors import HookError


@dataclass(frozen=True)
class WordMaps:
    """Heat maps of every token of every row.

    Attributes
    ----------
    values : ndarray, shape (rows, n_tokens, h, w), float32
        Raw sums of probabilities, before any min-max; (h, w) is the latent's size. All positions of the
        prompt are there, start, end and padding included.
    layers : tuple of str
        Addresses of the cross-attentions that entered.
    definition, version : str
    columns : tuple of tuple of int, or None
        Of a transformer: by row, the positions of the text that the maps are of, since not all have one; (h, w) is then
        the grid of patches.
    text : ndarray, shape (rows, h, w), float32, or None
        Of a transformer: the mass of all the text in the same attentions, summed alike.
    self_attention : ndarray, shape (rows, pixels, pixels), float32, or None
        Mean probability with which each pixel looks at each, where the definition spreads its maps along that.
    """

    values: np.ndarray = field(repr=False)
    layers: tuple[str, ...] = field(repr=False)
    definition: str = definitions.DAAM.name
    version: str = definitions.DAAM.version
    columns: tuple[tuple[int, ...], ...] | None = field(default=None, repr=False)
    text: np.ndarray | None = field(default=None, repr=False)
    self_attention: np.ndarray | None = field(default=None, repr=False)

    def word(self, row: int, positions: Sequence[int]) -> np.ndarray:
        """Map of a word by its token positions, shape (h, w), float32.

        The mean over its tokens' maps (Tang et al. 2023); in a transformer their sum, what the word is paid in all.

        Raises
        ------
        HookError
            There is no such row, or no map of such a position.
        """
        if self.columns is None:
            return word_heat(self.heat(row), positions)
        heat = self.heat(row)
        return heat[_columns(self.columns[row], positions)].sum(axis=0)

    def heat(self, row: int) -> np.ndarray:
        """Maps of one row of the batch, shape (n_tokens, h, w), float32, at least 0.

        Raises
        ------
        HookError
            The batch has no such row.
        """
        if not 0 <= row < len(self.values):
            raise HookError(f"row: expected one of the batch's {len(self.values)} rows, but got {row}")
        return self.values[row]


@dataclass(frozen=True)
class LayerMaps:
    """Sums of attention probabilities, layer by layer, heads averaged.

    Attributes
    ----------
    values : dict of str to ndarray, shape (rows, bins, n_tokens, h, w), float32
        By address, at the layer's own resolution: the sum over the calls of a bin.
    calls : tuple of int
        Number of calls of the denoiser in each bin.
    heads : dict of str to int
        By address, how many heads were averaged.
    size : (int, int)
        Of the latent; of a transformer, of the grid of patches.
    columns : tuple of tuple of int, or None
        As in `WordMaps`; behind them is the mass of all the text, where the definition has it.
    """

    values: dict[str, np.ndarray] = field(repr=False)
    calls: tuple[int, ...]
    heads: dict[str, int] = field(repr=False)
    size: tuple[int, int]
    columns: tuple[tuple[int, ...], ...] | None = field(default=None, repr=False)

    @property
    def layers(self) -> tuple[str, ...]:
        """Addresses of the layers."""
        return tuple(self.values)

    def word(self, row: int, tokens: Sequence[int], layer: str | None, step: int | None) -> np.ndarray:
        """Map of a word in one layer (at its resolution) or in the mean of all (at the latent's).

        Parameters
        ----------
        row : int
            Image of the batch, from 0.
        tokens : sequence of int
            The word's positions in the prompt, as for `WordMaps.word`.
        layer : str or None
            Address of a layer; None is their mean, a layer weighed by its number of heads.
        step : int or None
            Bin of calls, from 0; None is the sum over the bins.

        Returns
        -------
        ndarray of float32, shape (height, width)

        Raises
        ------
        HookError
            If there is no such layer or bin.
        """
        if layer is not None and layer not in self.values:
            raise HookError(f"layer: expected one of {', '.join(self.values)}, but got {layer!r}")
        if step is not None and not 0 <= step < len(self.calls):
            raise HookError(f"step: expected one of the {len(self.calls)} bins kept, but got {step}")
        positions = list(tokens) if self.columns is None else _columns(self.columns[row], tokens)
        bins = slice(None) if step is None else slice(step, step + 1)

        def of_layer(address: str) -> np.ndarray:
            small = self.values[address][row, bins][:, positions].sum(axis=0)
            small = small.mean(axis=0, dtype=np.float32)
            # a word's mass is its tokens' sum
            return small if self.columns is None else small * np.float32(len(positions))

        if layer is not None:
            return of_layer(layer)
        maps = [np.clip(resize(of_layer(address), self.size), 0, None) for address in self.values]
        return np.average(maps, axis=0, weights=list(self.heads.values())).astype(np.float32)


def word_maps(sums: Any, self_sums: Any | None) -> WordMaps:
    """Heat maps of an `AttentionSums` that has seen calls, spread along `self_sums` if its definition says so."""
    definition, heat, looks = sums.definition, sums.defined.heat(), None
    if definition.refine:
        heat = self_sums.defined.refined(heat)
        looks = self_sums.defined.self_attention().cpu().numpy()
    values, text = heat.cpu().numpy(), None
    if sums.columns is not None:
        text = values[:, -1] if sums.has_text_mass else None
        values = values[:, : max(map(len, sums.columns))]
    layers = tuple(sums.defined.layers)
    return WordMaps(values, layers, definition.name, definition.version, sums.columns, text, looks)


def layer_maps(sums: Any, calls: int) -> LayerMaps | None:
    """The layers of an `AttentionSums` that has seen so many calls; None if it keeps none apart."""
    kept = sums.by_layer
    if kept is None:
        return None
    size = sums.latent[1:]
    values = {
        address: total.mT.unflatten(-1, kept.layers[address].size(*size)).cpu().numpy()
        for address, total in kept.sums.items()
    }
    heads = {address: kept.layers[address].heads for address in values}
    return LayerMaps(values, tuple(kept.calls) or (calls,), heads, size, sums.columns)


def _columns(of_row: Sequence[int], positions: Sequence[int]) -> list[int]:
    """Where these positions of the text are among those that have a map."""
    if missing := [position for position in positions if position not in of_row]:
        raise HookError(f"positions: expected some of {list(of_row)}, those of words, but got {missing[0]}")
    return [of_row.index(position) for position in positions]
