"""Definitions of heat maps: named, versioned ways from attention probabilities to one map per token.

A definition says which layers enter and with which weight, whether heads are resized one by one or averaged first, and
how layers are combined. All are summed while the pipeline runs, at a memory that does not grow with the steps, and
every one is the same few lines (`hooks.attention.sums`). Imports no torch.

    w_l = weight of layer l, times its number of heads if heads are resized "each"
    M_l = bicubic(sum over calls of probability), clamped at 0, mean over heads
    heat = (sum over l of w_l M_l / sum over l of w_l) ** power

or, where layers are combined by "product", their weighted geometric mean to that power. Where `following` is above
0, M_l of a token is the weighted mean of its own and the next token's. Where self-attentions are named under `refine`,

    h = heat / max heat;  g = A h ** refine_power
    refined heat = max heat * h ** refine_keep * g / max g

with A(i, j) the mean probability, over calls, heads and layers, with which pixel i looks at pixel j
(`hooks.attention.refine`).

In transformers (`reading` is not "probability") a word's map is the sum over its tokens, on the grid of patches, of
what the image's positions pay them (the image reads the word; Shin et al., ICCV 2025, find the converse, where a word's
attention sums to one over the image, to be worse). Where no layers are named, those enter that the literature prefers
for the model.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hooks.attention.layers import AttentionLayer
from hooks.errors import HookError

FLOOR = 1e-3  # of a probability
REFINE_GRID = 32 * 32  # pixels of the largest grid whose self-attention refines a map: 4 MiB an image


@dataclass(frozen=True)
class Definition:
    """One way to compute heat maps.

    Attributes
    ----------
    name, version : str
        Written beside every map.
    layers : tuple of (str, float)
        Globs of layer addresses, each with a weight; the first that matches counts, a layer that none
        matches is left out.
    left_out : tuple of int
        Factors (side of the latent over side of the layer's grid) whose layers are left out.
    heads : {"each", "mean"}
        Whether every head's map is resized and clamped by itself, or their mean.
    combine : {"mean", "product"}
        Arithmetic or geometric mean over layers; the product takes `FLOOR` of a probability more of each
        layer, so that one layer that looks away does not alone empty it.
    following : float
        Weight of the next token's map beside a token's own, 1: a causal text encoder has read a word in the
        state of the token after it.
    power : float
        What the combined map is raised to; above 1, thresholds of a stretched map come to lie lower.
    refine : tuple of str
        Globs of the self-attention layers along which the combined map is spread; none, by default.
    refine_power, refine_keep : float
        The power the map is raised to before it is spread, and that of the map which the result is multiplied by.
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
    version: str
    layers: tuple[tuple[str, float], ...] = (("*", 1.0),)
    left_out: tuple[int, ...] = ()
    heads: str = "each"
    combine: str = "mean"
    following: float = 0.0
    power: float = 1.0
    refine: tuple[str, ...] = ()
    refine_power: float = 1.0
    refine_keep: float = 0.0
    reading: str = "probability"
    source: str = ""

    def __post_init__(self) -> None:
        for name, allowed in (
            ("heads", ("each", "mean")),
            ("combine", ("mean", "product")),
            ("reading", ("probability", "mass", "share", "output")),
        ):
            if getattr(self, name) not in allowed:
                raise HookError(
                    f"definition {self.name!r}: {name}: expected one of {', '.join(allowed)}, "
                    f"but got {getattr(self, name)!r}"
                )

    @property
    def separate_layers(self) -> bool:
        """Whether each layer's map is needed by itself: they are more than summed."""
        return self.combine != "mean"

    def weight(self, layer: AttentionLayer) -> float:
        """Weight of a layer, per head where heads are resized one by one; 0 if it does not enter."""
        if layer.factor in self.left_out:
            return 0.0
        for glob, weight in self.layers:
            if fnmatch.fnmatchcase(layer.address, glob):
                return weight * (layer.heads if self.heads == "each" else 1)
        return 0.0

    def entering(self, layers: Sequence[AttentionLayer]) -> list[AttentionLayer]:
        """The layers that enter.

        Raises
        ------
        HookError
            If none does.
        """
        entering = [layer for layer in layers if self.weight(layer) > 0]
        if not entering:
            what = "cross-attention" if self.reading == "probability" else "attention to the text"
            raise HookError(
                f"word_maps: the denoiser has no {what} that the definition {self.name!r} takes "
                f"({', '.join(glob for glob, _ in self.layers)}, factors {self.left_out} left out): "
                "leave word_maps off"
            )
        return entering


DAAM = Definition(
    name="daam",
    version="1",
    layers=(("unet.down.*", 1.0), ("unet.up.*", 1.0)),
    left_out=(8,),
    source="Tang et al. (ACL 2023), section 2.2, as daam 0.2.0 computes it",
)

DECODER_PRODUCT = Definition(
    name="decoder-product",
    version="1",
    layers=(("unet.up.*", 1.0),),
    heads="mean",
    combine="product",
    following=1.0,
    power=2.0,
    source="found and compared with masks on toyworld, see docs/validation/word_maps.md",
)

SELF_REFINED = replace(
    DECODER_PRODUCT,
    name="self-refined",
    following=0.5,
    power=1.0,
    refine=("unet.up.*",),
    refine_power=6.0,
    refine_keep=0.5,
)

JOINT_MASS = Definition(
    name="joint-mass",
    version="1",
    layers=(),
    heads="mean",
    reading="mass",
    source="Shin et al. (ICCV 2025), section 4; mean over heads, calls and their blocks",
)

JOINT_SHARE = replace(JOINT_MASS, name="joint-share", reading="share")

OUTPUT_SPACE = replace(
    JOINT_MASS,
    name="output-space",
    reading="output",
    source="Helbling et al. (ICML 2025), ConceptAttention, of the prompt's own tokens",
)

_REGISTRY: dict[str, Definition] = {
    one.name: one for one in (DAAM, DECODER_PRODUCT, SELF_REFINED, JOINT_MASS, JOINT_SHARE, OUTPUT_SPACE)
}


def names(*readings: str) -> list[str]:
    """Names of the definitions there are, or of those with one of these readings.

    Examples
    --------
    >>> names("probability"), names("mass", "share", "output")
    (['daam', 'decoder-product', 'self-refined'], ['joint-mass', 'joint-share', 'output-space'])
    """
    return [name for name, one in _REGISTRY.items() if not readings or one.reading in readings]


def default_name(readings: Sequence[str]) -> str:
    """Return the definition that is taken where none is named, by an architecture's `readings`.

    Examples
    --------
    >>> default_name(("probability",)), default_name(("mass", "share"))
    ('daam', 'joint-mass')
    """
    return names(*readings)[0]


def get(definition: str | Definition) -> Definition:
    """A definition by its name; one given as it is stays as it is.

    Raises
    ------
    HookError
        If there is none of this name.

    Examples
    --------
    >>> get("daam").left_out
    (8,)
    """
    if isinstance(definition, Definition):
        return definition
    if definition not in _REGISTRY:
        raise HookError(f"definition: expected one of {', '.join(_REGISTRY)}, but got {definition!r}")
    return _REGISTRY[definition]


def variant(definition: str | Definition, name: str, **changes: object) -> Definition:
    """A definition like another but for the named fields, not registered."""
    return replace(get(definition), name=name, version="0", **changes)
