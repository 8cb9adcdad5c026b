"""Choice of the attention that is kept separately: by layer, resolution, head, step and token. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hooks.attention.layers import AttentionLayer, choose
from hooks.errors import HookError

LIMIT = 2**30


@dataclass(frozen=True)
class MapChoice:
    """Sums of attention probabilities to keep, layer by layer, each at its own resolution.

    Parameters
    ----------
    layers : str or sequence of str
        Addresses or globs of attention layers, such as `unet.up.*`; all, by default.
    resolutions : sequence of int, optional
        Factors by which a layer's grid is smaller than the latent (1, 2, 4, 8); all, by default.
    heads : {"mean", "each"} or sequence of int
        The mean over the heads, every head, or the heads of these numbers.
    steps : {"sum", "each"} or int
        One sum over the calls of the denoiser, every call apart, or so many bins of (nearly) equal numbers of calls.
    tokens : sequence of int, optional
        Positions to keep (of the prompt, or of the grid for self-attention); all, by default.
    definition : str or None
        Name of the heat map's definition (`hooks.attention.definitions`) that is summed beside; None for none.
        "default" is that of the architecture, "daam" for U-Nets. Self-attention has none.
    limit : int or None
        Bytes that all that is summed may take on the device; more is refused before the first step. None
        lifts it.

    Examples
    --------
    Head means of every layer at ten moments of the denoising, enough to try other definitions afterwards:

    >>> MapChoice(steps=10).bins(calls=51)
    10
    >>> MapChoice(steps=10).bin_of(call=50, calls=51)
    9
    """

    layers: str | Sequence[str] = "*"
    resolutions: Sequence[int] | None = None
    heads: str | Sequence[int] = "mean"
    steps: str | int = "sum"
    tokens: Sequence[int] | None = None
    definition: str | None = "default"
    limit: int | None = LIMIT

    def __post_init__(self) -> None:
        if not (self.heads in ("mean", "each") or _whole(self.heads)):
            raise HookError(f"heads: expected 'mean', 'each' or numbers of heads, but got {self.heads!r}")
        steps = self.steps
        if steps not in ("sum", "each") and not (isinstance(steps, int) and steps > 0):
            raise HookError(f"steps: expected 'sum', 'each' or a number of bins, but got {steps!r}")
        for name in ("resolutions", "tokens"):
            value = getattr(self, name)
            if value is not None and not _whole(value):
                raise HookError(f"{name}: expected at least one whole number from 0, but got {value!r}")
        for name in ("layers", "resolutions", "heads", "tokens"):  # lists would make it unhashable
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                object.__setattr__(self, name, tuple(value))

    def chosen(self, layers: Sequence[AttentionLayer]) -> list[AttentionLayer]:
        """Those of `layers` that are kept."""
        chosen = choose(layers, self.layers)
        if self.resolutions is not None:
            there = {layer.factor for layer in chosen}
            if missing := [factor for factor in self.resolutions if factor not in there]:
                raise HookError(
                    f"resolutions: expected some of {sorted(there)}, the factors of the chosen layers, "
                    f"but got {missing[0]}"
                )
            chosen = [layer for layer in chosen if layer.factor in self.resolutions]
        if not isinstance(self.heads, str):
            for layer in chosen:
                if max(self.heads) >= layer.heads:
                    raise HookError(
                        f"heads: expected numbers below the {layer.heads} heads of {layer.address}, "
                        f"but got {max(self.heads)}"
                    )
        return chosen

    def heads_kept(self, heads: int) -> int:
        """Return how many maps are kept of a layer with so many heads."""
        if self.heads == "mean":
            return 1
        return heads if self.heads == "each" else len(self.heads)

    def tokens_kept(self, tokens: int) -> int:
        """Return how many maps are kept of so many tokens."""
        if self.tokens is None:
            return tokens
        if max(self.tokens) >= tokens:
            raise HookError(f"tokens: expected positions below {tokens}, but got {max(self.tokens)}")
        return len(self.tokens)

    def bins(self, calls: int) -> int:
        """Return how many sums over the calls are kept apart, never more than there are calls."""
        if self.steps == "sum":
            return 1
        return calls if self.steps == "each" else min(self.steps, calls)

    def bin_of(self, call: int, calls: int) -> int:
        """The bin that a call belongs to."""
        return min(call, calls - 1) * self.bins(calls) // calls


def _whole(value: object) -> bool:
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        return False
    numbers = list(value)
    return bool(numbers) and all(
        hasattr(number, "__index__") and not isinstance(number, bool) and number >= 0 for number in numbers
    )
