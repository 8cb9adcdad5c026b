"""Attention maps of a block as arrays: heat maps by definition, and the sums that were kept apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hooks.attention import definitions
from hooks.attention.choice import MapChoice
from hooks.attention.layers import AttentionLayer
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
    """

    values: np.ndarray = field(repr=False)
    layers: tuple[str, ...] = field(repr=False)
    definition: str = definitions.DAAM.name
    version: str = definitions.DAAM.version
    columns: tuple[tuple[int, ...], ...] | None = field(default=None, repr=False)
    text: np.ndarray | None = field(default=None, repr=False)

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
    """Sums of attention probabilities, layer by layer, as a `MapChoice` asked for them.

    Attributes
    ----------
    values : dict of str to ndarray, shape (rows, bins, heads, n_tokens, h, w), float32
        By address, at the layer's own resolution: the sum over the calls of a bin; one head where heads
        were averaged. In self-attention the "tokens" are the pixels attended to, the last two dimensions
        those that attend.
    calls : tuple of int
        Number of calls of the denoiser in each bin.
    choice : MapChoice
    size : (int, int)
        Of the latent; of a transformer, of the grid of patches.
    columns : tuple of tuple of int, or None
        As in `WordMaps`; behind them is the mass of all the text, where the definition has it.
    """

    values: dict[str, np.ndarray] = field(repr=False)
    calls: tuple[int, ...]
    choice: MapChoice
    size: tuple[int, int]
    _layers: tuple[AttentionLayer, ...] = field(repr=False)  # all of the denoiser
    columns: tuple[tuple[int, ...], ...] | None = field(default=None, repr=False)

    @property
    def layers(self) -> tuple[str, ...]:
        """Addresses of the layers kept."""
        return tuple(self.values)

    def positions(self, tokens: Sequence[int]) -> list[int]:
        """Return where these token positions are among those kept.

        Raises
        ------
        HookError
            If one was not kept.
        """
        if self.choice.tokens is None:
            return list(tokens)
        if missing := [token for token in tokens if token not in self.choice.tokens]:
            raise HookError(
                f"tokens: expected some of {self.choice.tokens}, which were kept, but got {missing[0]}"
            )
        return [self.choice.tokens.index(token) for token in tokens]

    def word(self, row: int, tokens: Sequence[int], layer: str | None, step: int | None) -> np.ndarray:
        """Map of a word in one layer (at its resolution) or in the mean of all kept (at the latent's).

        Heads count equally.

        Parameters
        ----------
        row : int
            Image of the batch, from 0.
        tokens : sequence of int
            The word's positions in the prompt; their maps are summed.
        layer : str or None
            Address of one of those kept; None is their mean, a layer weighed by its number of heads.
        step : int or None
            Bin of calls, from 0; None is the sum over the bins.

        Returns
        -------
        ndarray of float32, shape (height, width)

        Raises
        ------
        HookError
            If that layer, bin or token was not kept.
        """
        if layer is not None and layer not in self.values:
            raise HookError(f"layer: expected one of those kept, {', '.join(self.values)}, but got {layer!r}")
        if step is not None and not 0 <= step < len(self.calls):
            raise HookError(f"step: expected one of the {len(self.calls)} bins kept, but got {step}")
        positions = self.positions(tokens) if self.columns is None else _columns(self.columns[row], tokens)
        bins = slice(None) if step is None else slice(step, step + 1)
        maps, weights = [], []
        for known in self._layers:
            if known.address in (self.values if layer is None else (layer,)):
                probabilities = self.values[known.address][row, bins][:, :, positions]
                small = probabilities.sum(axis=0).mean(axis=(0, 1), dtype=np.float32)
                if self.columns is not None:
                    small = small * np.float32(len(positions))  # a word's mass is its tokens' sum
                if layer is not None:
                    return small
                maps.append(np.clip(resize(small, self.size), 0, None))
                weights.append(known.heads)
        return np.average(maps, axis=0, weights=weights).astype(np.float32)


def word_maps(sums: object, self_sums: object | None) -> WordMaps | None:
    """Heat maps of an `AttentionSums` that has seen calls; None if it sums no definition.

    They are refined by the sums of self-attention if the definition says so.
    """
    defined = sums.defined
    if defined is None:
        return None
    definition, heat = defined.definition, defined.heat()
    if definition.refine:
        heat = self_sums.defined.refine(heat)
    values, layers = heat.cpu().numpy(), tuple(defined.layers)
    if sums.columns is None:
        return WordMaps(values, layers, definition.name, definition.version)
    text = values[:, -1] if sums.has_text_mass else None
    values = values[:, : max(map(len, sums.columns))]
    return WordMaps(values, layers, definition.name, definition.version, sums.columns, text)


def _columns(of_row: Sequence[int], positions: Sequence[int]) -> list[int]:
    """Where these positions of the text are among those that have a map."""
    if missing := [position for position in positions if position not in of_row]:
        raise HookError(f"positions: expected some of {list(of_row)}, those of words, but got {missing[0]}")
    return [of_row.index(position) for position in positions]


def layer_maps(sums: object) -> LayerMaps | None:
    """The sums kept apart by an `AttentionSums`; None if it keeps none."""
    kept = sums.kept
    if kept is None:
        return None
    size = sums.latent[1:]
    values = {}
    for address, tensor in kept.sums.items():
        array = tensor.cpu().numpy()  # (rows, bins, heads, pixels, tokens)
        values[address] = np.moveaxis(array, -1, -2).reshape(
            *array.shape[:3], array.shape[4], *kept.layers[address].size(*size)
        )
    return LayerMaps(
        values,
        tuple(kept.calls),
        kept.choice,
        size,
        tuple(layer.bare() for layer in sums.all_layers),
        sums.columns,
    )
