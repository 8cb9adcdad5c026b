"""Place of a site by its address alone: its space, when it is read, its order in the network, its label.

Here stand the addresses that every latent diffusion model has: text encoders, latents, predictions, decoder
and image. What lies inside a denoiser, its architecture says. Needs no torch and no model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

GROUPS = ("text", "in", "down", "mid", "up", "block", "single", "out", "decoder", "image", "other")
_RANK = {group: number for number, group in enumerate(GROUPS)}
ENCODING, DENOISING, DECODING = "encoding", "denoising", "decoding"


@dataclass(frozen=True, order=True)
class Place:
    """Position of a site in the network; sorts in the order in which data passes.

    Attributes
    ----------
    rank : tuple of int
        Begins with the number of the group in `GROUPS`.
    group : str
        One of `GROUPS`.
    label : str
        What is written beside a row of that group.
    space : {"prompt", "denoising", "image"} or None
        None for an address that no architecture knows.
    moment : {"encoding", "denoising", "decoding"} or None
        When it is read: once before the denoiser runs, at every call of it, once after.
    layer_norm : bool
        Whether the text encoder's final layer norm belongs to it: its values are compared behind that norm.
    between_blocks : bool
        Whether these are the image's states between two blocks of the denoiser, which its depth is counted in.
    """

    rank: tuple[int, ...]
    group: str
    label: str
    space: str | None
    moment: str | None
    layer_norm: bool = False
    between_blocks: bool = False


_TEXT = re.compile(r"^text(?:_(\d+))?\.(embeddings|final|layers\.(\d+)(?:\.(.+))?)$")
_IN_TEXT_LAYER = ("attn.heads", "attn", "middle", "mlp")
_INNER = re.compile(r"^(resnet|attn)\.(\d+)(?:\.(.+))?$")
_TRANSFORMER = re.compile(r"^(self|cross|ff|block)(?:\.(\d+))?(?:\.(query|key|value|heads))?$")
_IN_TRANSFORMER = ("self", "cross", "ff", "block")
_IN_ATTENTION = ("query", "key", "value", "heads", None)
_OUT = (
    "noise_pred.unconditional",
    "noise_pred.image",
    "noise_pred.conditional",
    "noise_pred.guided",
    "x0_pred",
)
_LAST = 9999  # runs after whatever is numbered


def shared_place(address: str) -> Place | None:
    """The place of a site outside the denoiser, or None.

    Examples
    --------
    >>> shared_place("text.layers.3").label, shared_place("text.layers.3").layer_norm
    ('layer 3', True)
    >>> shared_place("unet.mid") is None
    True
    """
    if match := _TEXT.match(address):
        return _text(*match.groups())
    if address == "text.pooled":  # made of the texts of all encoders, as the final states are
        return Place((0, _LAST, 1), "text", "pooled", "prompt", ENCODING)
    if address == "latent":
        return Place((_RANK["in"], 0), "in", "latent", "denoising", DENOISING)
    if address in _OUT:
        label = address.replace("noise_pred.", "noise ")
        return Place((_RANK["out"], _OUT.index(address)), "out", label, "denoising", DENOISING)
    if address == "latent.final":
        return Place((_RANK["out"], len(_OUT)), "out", "final latent", "denoising", DECODING)
    if address.startswith("vae."):
        return _decoder(address)
    if address == "image":
        return Place((_RANK["image"],), "image", "image", "image", DECODING)
    return None


def _text(encoder: str | None, name: str, layer: str | None, inner: str | None) -> Place:
    label, before = name.replace("layers.", "layer "), int(encoder or 0)
    rank: tuple[int, ...] = (before, -1)
    if layer is not None:
        rank = (before, int(layer), _order(_IN_TEXT_LAYER, inner))
        label = f"layer {layer}" + (f" · {inner.replace('.', ' ')}" if inner else "")
    elif name == "final":
        rank = (_LAST,)  # the states of all encoders, joined
    labelled = f"{encoder} · {label}" if encoder else label
    return Place((0, *rank), "text", labelled, "prompt", ENCODING, name != "final" and inner is None)


def _decoder(address: str) -> Place:
    name = address.removeprefix("vae.").removeprefix("decoder.")
    if match := re.match(r"^up\.(\d+)(?:\.(.+))?$", name):
        rank: tuple[int, ...] = (3, int(match[1]), *within_block(match[2])[0])
    elif match := re.match(r"^mid(?:\.(.+))?$", name):
        rank = (2, *within_block(match[1])[0])
    else:
        rank = (_order(("post_quant", "conv_in"), name),)
    label = name.replace("_", " ").replace(".", " ")
    return Place((_RANK["decoder"], *rank), "decoder", label, "image", DECODING)


def within_block(inner: str | None) -> tuple[tuple[int, ...], str]:
    """Rank and label of what lies in a block of residual blocks and transformers; None stands for its output.

    Examples
    --------
    >>> within_block("attn.1.cross")[1], within_block(None)[1]
    ('attn 1 · cross', 'block output')
    >>> sorted([None, "resnet.1", "attn.0", "attn.0.cross", "attn.0.self.key", "resnet.0"], key=within_block)
    ['resnet.0', 'attn.0.self.key', 'attn.0.cross', 'attn.0', 'resnet.1', None]
    """
    if inner is None:
        return (2,), "block output"
    if match := _INNER.match(inner):
        kind, index, rest = match[1], int(match[2]), match[3]
        # what is inside the transformer comes before the transformer's output
        rank = (0,) if kind == "resnet" else (1, *_within_transformer(rest)) if rest else (2,)
        return (0, index, *rank), f"{kind} {index}" + (f" · {rest}" if rest else "")
    return (1,), inner.replace(".", " ")


def _within_transformer(rest: str) -> tuple[int, ...]:
    match = _TRANSFORMER.match(rest)
    if not match:
        return (_LAST,)
    return int(match[2] or 0), _IN_TRANSFORMER.index(match[1]), _IN_ATTENTION.index(match[3])


def _order(names: tuple[str, ...], name: str | None) -> int:
    return names.index(name) if name in names else len(names)
