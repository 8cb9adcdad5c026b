"""Attention maps of a block as arrays: heat maps by definition, and the sums that were kept apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hooks.attention import definitions
from hooks.attention.choice import MapChoice
from hooks.attention.definitions import Definition
from hooks.attention.layers import AttentionLayer
from hooks.attention.masks import resize
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
    """

    values: np.ndarray = field(repr=False)
    layers: tuple[str, ...] = field(repr=False)
    definition: str = definitions.DAAM.name
    version: str = definitions.DAAM.version

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
        Of the latent.
    """

    values: dict[str, np.ndarray] = field(repr=False)
    calls: tuple[int, ...]
    choice: MapChoice
    size: tuple[int, int]
    _layers: tuple[AttentionLayer, ...] = field(repr=False)  # all of the denoiser
    _planned: int | None = field(repr=False)

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
        positions = self.positions(tokens)
        bins = slice(None) if step is None else slice(step, step + 1)
        maps, weights = [], []
        for known in self._layers:
            if known.address in (self.values if layer is None else (layer,)):
                probabilities = self.values[known.address][row, bins][:, :, positions]
                small = probabilities.sum(axis=0).mean(axis=(0, 1), dtype=np.float32)
                if layer is not None:
                    return small
                maps.append(np.clip(resize(small, self.size), 0, None))
                weights.append(known.heads)
        return np.average(maps, axis=0, weights=weights).astype(np.float32)

    def heat(self, definition: str | Definition) -> WordMaps:
        """Heat maps by a definition, made of what was kept.

        Parameters
        ----------
        definition : str or Definition
            Registered or not (`hooks.attention.definitions`).

        Raises
        ------
        HookError
            If what was kept does not suffice: a layer or token is missing, heads were averaged that the
            definition resizes one by one, or its weights of the steps divide a bin.
        """
        import torch

        from hooks.attention.sums import add_layers, combined

        definition = definitions.get(definition)
        name, choice = f"definition {definition.name!r}", self.choice
        if definition.refine:
            raise HookError(f"{name}: needs self-attention, which is not kept here: name it to the Probe")
        entering = definition.entering(self._layers)
        if missing := [layer.address for layer in entering if layer.address not in self.values]:
            raise HookError(f"{name}: needs {missing[0]}, which was not kept: choose its layers too")
        if choice.tokens is not None or not isinstance(choice.heads, str):
            raise HookError(f"{name}: needs all heads and tokens: choose tokens=None, heads='mean' or 'each'")
        separate = [layer.address for layer in entering if layer.factor > 1]
        if definition.heads == "each" and choice.heads == "mean" and separate:
            raise HookError(f"{name}: resizes every head of {separate[0]} by itself: choose heads='each'")
        weights = self._bin_weights(definition)
        rows, _, _, tokens = next(iter(self.values.values())).shape[:4]
        total = torch.zeros((rows, tokens, *self.size))
        for row in range(rows):
            maps = []
            for layer in entering:
                sums = torch.from_numpy(np.tensordot(weights, self.values[layer.address][row], axes=1))
                if definition.heads == "mean":
                    sums = sums.mean(dim=0, keepdim=True)
                maps.append((layer, sums.flatten(2).transpose(1, 2)))
            add_layers(total[row], definition, maps)
        total = combined(total, definition, entering)
        layers = tuple(layer.address for layer in entering)
        return WordMaps(total.numpy(), layers, definition.name, definition.version)

    def _bin_weights(self, definition: Definition) -> np.ndarray:
        bins, steps = len(self.calls), definition.steps
        if bins == self._planned:
            weights = [definition.step_weight(call, self._planned) for call in range(bins)]
        elif bins % len(steps) == 0:
            weights = [steps[b * len(steps) // bins] for b in range(bins)]
        else:
            raise HookError(
                f"definition {definition.name!r}: weights {len(steps)} parts of the steps, which {bins} bins "
                f"do not divide into: choose steps='each' or a multiple of {len(steps)}"
            )
        return np.asarray(weights, dtype=np.float32)


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
    return WordMaps(heat.cpu().numpy(), tuple(defined.layers), definition.name, definition.version)


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
        sums.planned,
    )
