"""Meaning of a site's address in any architecture: runs store addresses, no models. Needs no torch and no model.

Addresses are those of `hooks.sites` (``unet.down.0.attn.1.cross``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

GROUPS = ("text", "in", "down", "mid", "up", "block", "single", "out", "decoder", "image", "other")
_RANK = {group: number for number, group in enumerate(GROUPS)}
ENCODING, DENOISING, DECODING = "encoding", "denoising", "decoding"


@dataclass(frozen=True, order=True)
class Place:
    """Position of a site in the network; sorts in the order in which data passes."""

    rank: tuple[int, ...]  # begins with the number of the group in `GROUPS`
    group: str  # one of `GROUPS`
    label: str  # what is written beside a row of that group
    space: str | None  # "prompt", "denoising" or "image"; None for an address that is not known
    # when it is read: "encoding" (once before the denoiser runs), "denoising" (at every call of it) or "decoding"
    moment: str | None
    # whether the text encoder's final layer norm belongs to it: its values are compared behind that norm
    layer_norm: bool = False


def place(address: str) -> Place:
    """The `Place` of a site's address in the network: sort order, group, label, space and moment.

    An unknown address sorts after all others, in the group ``other``, with space and moment None.

    Examples
    --------
    >>> place("unet.down.0.attn.1.cross").label, place("text.layers.3").layer_norm
    ('0 · attn 1 · cross', True)
    >>> sorted(["unet.up.0", "unet.mid", "unet.down.0", "unet.down.0.resnet.0"], key=place)
    ['unet.down.0.resnet.0', 'unet.down.0', 'unet.mid', 'unet.up.0']
    >>> place("dit.single.7.joint").label, place("dit.block.3.image").space
    ('single 7 · joint', 'denoising')
    >>> sorted(["dit.block.10.mod", "dit.block.2.image", "dit.block.2.joint", "dit.in.text"], key=place)
    ['dit.in.text', 'dit.block.2.joint', 'dit.block.2.image', 'dit.block.10.mod']
    """
    for pattern, place_of in PATTERNS:
        if (match := re.fullmatch(pattern, address)) and (result := place_of(*match.groups())):
            return result
    return Place((_RANK["other"], *map(ord, address)), "other", address, None, None)


def readable_name(address: str) -> str:
    """Name of a site in texts and figures, such as "mid · attn 0 · cross", from its address.

    Examples
    --------
    >>> readable_name("unet.mid.attn.0.cross"), readable_name("text_2.embeddings")
    ('mid · attn 0 · cross', 'text encoder 2 · embeddings')
    """
    position = place(address)
    if address.startswith("text_"):
        return f"text encoder {position.label}"
    if address == "text.pooled":
        return "pooled text"
    if position.group in ("down", "up", "mid", "decoder"):
        return f"{position.group} {position.label}" if position.group != "mid" else f"mid · {position.label}"
    return position.label


def space(address: str) -> str:
    """The space of activations at a site: "prompt", "denoising" or "image"; a ValueError for an unknown address.

    Examples
    --------
    >>> space("text.layers.3"), space("unet.up.2.attn.1.cross"), space("vae.decoder.mid")
    ('prompt', 'denoising', 'image')
    """
    result = place(address).space
    if result is None:
        raise ValueError(f"site: expected an address such as unet.mid, got {address!r}")
    return result


def has_steps(address: str) -> bool:
    """Return whether a site has values at every call of the denoiser, not once per generated image.

    Examples
    --------
    >>> has_steps("latent"), has_steps("latent.final"), has_steps("vae.decoder.mid")
    (True, False, False)
    """
    return place(address).moment == DENOISING


_IN_TEXT_LAYER = ("attn.heads", "attn", "middle", "mlp")
_IN_TRANSFORMER = ("self", "cross", "ff", "block")
_IN_ATTENTION = ("query", "key", "value", "heads", None)
_IN_BLOCK = (  # of a diffusion transformer
    *("mod", "mod.text"),
    *(
        f"{one}{part}"
        for one in ("joint", "joint.text", "self", "cross")
        for part in (".query", ".key", ".value", ".heads", "")
    ),
    *("ff", "ff.text", "text", "image"),
)
_OUT = (
    *("noise_pred.unconditional", "noise_pred.image", "noise_pred.conditional", "noise_pred.guided"),
    *("x0_pred", "latent.final"),
)
_LAST = 9999  # runs after whatever is numbered


def _text_place(encoder: str | None, name: str, layer: str | None, inner: str | None) -> Place:
    """Place of a text encoder's site, from the parts of its address: embeddings, a layer, final or pooled text."""
    label, before = name.replace("layers.", "layer "), int(encoder or 0)
    rank: tuple[int, ...] = (before, -1)
    if layer is not None:
        rank = (before, int(layer), _index_or_last(_IN_TEXT_LAYER, inner))
        label = f"layer {layer}" + (f" · {inner.replace('.', ' ')}" if inner else "")
    elif name in ("final", "pooled"):
        rank = (_LAST, *((1,) if name == "pooled" else ()))  # made of the texts of all encoders
    labelled = f"{encoder} · {label}" if encoder else label
    normed = inner is None and name not in ("final", "pooled")
    return Place((0, *rank), "text", labelled, "prompt", ENCODING, normed)


def _entrance_place(address: str) -> Place:
    """Place of the latent, or of a module by which image or text enters the denoiser, by address."""
    order, label = {
        "latent": ((0,), "latent"),
        "unet.conv_in": ((1,), "conv_in"),
        "dit.in.image": ((1, 0), "image in"),
        "dit.in.text": ((1, 1), "text in"),
    }[address]
    return Place((_RANK["in"], *order), "in", label, "denoising", DENOISING)


def _output_place(address: str) -> Place:
    """Place of a noise prediction, the x0 prediction or the final latent, by address."""
    final = address == "latent.final"
    label = "final latent" if final else address.replace("noise_pred.", "noise ")
    rank = (_RANK["out"], _OUT.index(address))
    return Place(rank, "out", label, "denoising", DECODING if final else DENOISING)


def _unet_block_place(side: str | None, number: str | None, mid: str | None, inner: str | None) -> Place:
    """Place of a U-Net block ("down" or "up" with its number, or "mid"), or of the module `inner` in it."""
    rank, label = _block_rank_and_label(inner)
    group = side or "mid"
    labelled = label if number is None else f"{number} · {label}"
    rank = (_RANK[group], int(number or 0), *rank)
    return Place(rank, group, labelled, "denoising", DENOISING)


def _transformer_block_place(group: str, number: str, inner: str) -> Place | None:
    """Place of the site `inner` in a block of a diffusion transformer; None if there is no such site."""
    if inner not in _IN_BLOCK:
        return None
    label = f"{group} {number} · {inner.replace('.', ' ')}"
    rank = (_RANK[group], int(number), _IN_BLOCK.index(inner))
    return Place(rank, group, label, "denoising", DENOISING)


def _decoder_place(name: str) -> Place:
    """Place of a site of the VAE decoder, by its address without "vae.decoder."."""
    if match := re.fullmatch(r"up\.(\d+)(?:\.(.+))?", name):
        rank: tuple[int, ...] = (3, int(match[1]), *_block_rank_and_label(match[2])[0])
    elif match := re.fullmatch(r"mid(?:\.(.+))?", name):
        rank = (2, *_block_rank_and_label(match[1])[0])
    else:
        rank = (_index_or_last(("post_quant", "conv_in"), name),)
    label = name.replace("_", " ").replace(".", " ")
    return Place((_RANK["decoder"], *rank), "decoder", label, "image", DECODING)


def _block_rank_and_label(inner: str | None) -> tuple[tuple[int, ...], str]:
    """Rank (sort order) and label of a module such as "attn.0.cross" in a block; None is the block's output."""
    if inner is None:
        return (2,), "block output"
    match = re.fullmatch(r"(resnet|attn)\.(\d+)(?:\.(.+))?", inner)
    if match is None:
        return (1,), inner.replace(".", " ")
    kind, index, rest = match[1], int(match[2]), match[3]
    # what is inside the transformer comes before the transformer's output
    rank = (0,) if kind == "resnet" else (1, *_transformer_rank(rest)) if rest else (2,)
    return (0, index, *rank), f"{kind} {index}" + (f" · {rest}" if rest else "")


def _transformer_rank(inner: str) -> tuple[int, ...]:
    """Rank (sort order) of a module such as "cross.1.key" in a U-Net's transformer; the last for an unknown one."""
    match = re.fullmatch(r"(self|cross|ff|block)(?:\.(\d+))?(?:\.(query|key|value|heads))?", inner)
    if not match:
        return (_LAST,)
    return int(match[2] or 0), _IN_TRANSFORMER.index(match[1]), _IN_ATTENTION.index(match[3])


def _index_or_last(names: tuple[str, ...], name: str | None) -> int:
    """Index of a name in `names`; their number if it is None or not among them."""
    return names.index(name) if name in names else len(names)


PATTERNS: list[tuple[str, Callable[..., Place | None]]] = [  # of addresses; another architecture adds its own
    (r"text(?:_(\d+))?\.(embeddings|final|pooled|layers\.(\d+)(?:\.(.+))?)", _text_place),
    (r"(latent|unet\.conv_in|dit\.in\.(?:image|text))", _entrance_place),
    (r"unet\.(?:(down|up)\.(\d+)|(mid))(?:\.(.+))?", _unet_block_place),
    (r"dit\.(block|single)\.(\d+)\.(.+)", _transformer_block_place),
    (rf"({'|'.join(map(re.escape, _OUT))})", _output_place),
    (r"vae\.(?:decoder\.)?(.+)", _decoder_place),
    (r"(image)", lambda name: Place((_RANK[name],), name, name, "image", DECODING)),
]
