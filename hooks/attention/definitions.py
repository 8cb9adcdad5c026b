"""Definitions of heat maps: named, versioned ways from attention probabilities to one map per token.

All are summed while the pipeline runs, at a memory that does not grow with the steps. With

    M_l = bicubic(sum over calls of probability of layer l), clamped at 0, mean over heads

`combine` is "mean", as in DAAM: every head's map is resized and clamped by itself, and heat is the mean over heads and
layers. Or it is "product": heat is the geometric mean over layers of M_l + `FLOOR`, raised to `power`, where M_l of a
token is the weighted mean of its own and the `following` times next token's. Where `refine` names self-attentions,

    h = heat / max heat;  g = A h ** 6
    refined heat = max heat * h ** 0.5 * g / max g

with A(i, j) the mean probability, over calls, heads and layers, with which pixel i looks at pixel j.

In transformers (`reading` is not "probability") a word's map is the sum over its tokens, on the grid of patches, of
what the image's positions pay them (the image reads the word; Shin et al., ICCV 2025, find the converse, where a word's
attention sums to one over the image, to be worse). Where no layers are named, those enter that the literature prefers
for the model. Imports no torch.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hooks.errors import HookError

FLOOR = 1e-3  # of a probability: one layer that looks away does not alone empty a product
# powers of the map that is spread, and of the map that the result is times
REFINE_POWER, REFINE_KEEP = 6.0, 0.5
REFINE_GRID = 32 * 32  # pixels of the largest grid whose self-attention refines a map: 4 MiB an image


@dataclass(frozen=True)
class AttentionLayer:
    """One attention layer; `factor` is the side of the latent over the side of the layer's grid: 1, 2, 4 or 8."""

    address: str
    factor: int
    heads: int
    module: Any = field(repr=False, compare=False)

    def size(self, height: int, width: int) -> tuple[int, int]:
        """Return height and width of the layer's grid for a latent of `height` x `width`; each halving rounds up."""
        factor = self.factor
        while factor > 1:
            factor, height, width = factor // 2, (height + 1) // 2, (width + 1) // 2
        return height, width


@dataclass(frozen=True)
class Definition:
    """A definition of heat maps: which attention layers enter, what is summed, how layers are combined.

    Attributes
    ----------
    name, version : str
        Written beside every map.
    layers : tuple of str
        Globs of the layers that enter.
    left_out : tuple of int
        Factors (side of the latent over side of the layer's grid) whose layers are left out.
    combine : {"mean", "product"}
        Arithmetic or geometric mean over layers.
    following : float
        In a product, weight of the next token's map beside a token's own, 1: a causal text encoder has read a word in
        the state of the token after it.
    power : float
        What a product is raised to; above 1, thresholds of a stretched map come to lie lower.
    refine : tuple of str
        Globs of the self-attention layers along which the combined map is spread; none, by default.
    reading : {"probability", "mass", "share", "output"}
        What of an attention is summed: the softmax over the text alone that a U-Net's cross-attention takes, token by
        token; in transformers the mass of a word in the softmax over all keys, the model's own; that mass over the
        mass of all the text, in each head, which is the softmax over the text alone, padding included where the model
        reads it; or the softmax over the prompt's tokens of the products of the attention's outputs at the word and at
        the place of the image, over all heads at once (in blocks with a stream of the text).
    source : str
        Where it comes from.
    """

    name: str
    version: str = "1"
    layers: tuple[str, ...] = ("*",)
    left_out: tuple[int, ...] = ()
    combine: str = "mean"
    following: float = 0.0
    power: float = 1.0
    refine: tuple[str, ...] = ()
    reading: str = "probability"
    source: str = ""

    def __post_init__(self) -> None:
        """Raise HookError if `combine` or `reading` is not one of its values."""
        readings = ("probability", "mass", "share", "output")
        for name, allowed in (("combine", ("mean", "product")), ("reading", readings)):
            if (got := getattr(self, name)) not in allowed:
                raise HookError(
                    f"definition {self.name!r}: {name}: expected one of {', '.join(allowed)}, but got {got!r}"
                )

    def select_layers(self, layers: Sequence[AttentionLayer]) -> list[AttentionLayer]:
        """Return the layers that enter the heat maps by this definition; HookError if there are none."""
        entering = [layer for layer in matching(layers, self.layers) if layer.factor not in self.left_out]
        if not entering:
            what = "cross-attention" if self.reading == "probability" else "attention to the text"
            raise HookError(
                f"word_maps: the denoiser has no {what} that the definition {self.name!r} takes "
                f"({', '.join(self.layers)}, factors {self.left_out} left out): leave word_maps off"
            )
        return entering


def matching(layers: Sequence[AttentionLayer], globs: Sequence[str]) -> list[AttentionLayer]:
    """Return the layers whose address matches at least one of the globs."""
    return [layer for layer in layers if any(fnmatch.fnmatchcase(layer.address, glob) for glob in globs)]


DAAM = Definition(
    name="daam",
    layers=("unet.down.*", "unet.up.*"),
    left_out=(8,),
    source="Tang et al. (ACL 2023), section 2.2, as daam 0.2.0 computes it",
)

DECODER_PRODUCT = Definition(
    name="decoder-product",
    layers=("unet.up.*",),
    combine="product",
    following=1.0,
    power=2.0,
    source="found and compared with masks on toyworld, see docs/validation/word_maps.md",
)

SELF_REFINED = Definition(
    name="self-refined",
    layers=("unet.up.*",),
    combine="product",
    following=0.5,
    refine=("unet.up.*",),
    source=DECODER_PRODUCT.source,
)

JOINT_MASS = Definition(
    name="joint-mass",
    layers=(),
    reading="mass",
    source="Shin et al. (ICCV 2025), section 4; mean over heads, calls and their blocks",
)

JOINT_SHARE = Definition(name="joint-share", layers=(), reading="share", source=JOINT_MASS.source)

OUTPUT_SPACE = Definition(
    name="output-space",
    layers=(),
    reading="output",
    source="Helbling et al. (ICML 2025), ConceptAttention, of the prompt's own tokens",
)

_REGISTRY = {
    one.name: one for one in (DAAM, DECODER_PRODUCT, SELF_REFINED, JOINT_MASS, JOINT_SHARE, OUTPUT_SPACE)
}


def names(*readings: str) -> list[str]:
    """Return the names of all definitions, or of those whose `reading` is one of `readings`.

    >>> names("probability"), names("mass", "share", "output")
    (['daam', 'decoder-product', 'self-refined'], ['joint-mass', 'joint-share', 'output-space'])
    """
    return [name for name, one in _REGISTRY.items() if not readings or one.reading in readings]


def default_name(readings: Sequence[str]) -> str:
    """Return the name of the first definition with one of the readings, which is used if none is named.

    >>> default_name(("probability",)), default_name(("mass", "share"))
    ('daam', 'joint-mass')
    """
    return names(*readings)[0]


def get(definition: str | Definition) -> Definition:
    """Return the definition of a name, or `definition` itself if it is one; HookError for an unknown name.

    >>> get("daam").left_out
    (8,)
    """
    if isinstance(definition, Definition):
        return definition
    if definition not in _REGISTRY:
        raise HookError(f"definition: expected one of {', '.join(_REGISTRY)}, but got {definition!r}")
    return _REGISTRY[definition]
