"""What the address of a site says of it: its space, whether it has steps, its place in the network and its label.

Addresses are those of `hooks.sites` (``unet.down.0.attn.1.cross``). Needs no torch and no model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

GROUPS = ("text", "in", "down", "mid", "up", "out", "decoder", "image", "other")


@dataclass(frozen=True, order=True)
class Place:
    """Where a site stands in the network; sorts in the order in which data passes.

    ``group`` is one of `GROUPS`; ``label`` is what is written beside a row of that group.
    """

    rank: tuple[int, ...]
    group: str
    label: str


_BLOCK = re.compile(r"^unet\.(down|up)\.(\d+)(?:\.(.+))?$")
_MID = re.compile(r"^unet\.mid(?:\.(.+))?$")
_TEXT = re.compile(r"^text(?:_|\.)?(\d*)\.?(embeddings|layers\.(\d+)|final)$")
_INNER = re.compile(r"^(resnet|attn|block)\.(\d+)(?:\.(.+))?$")
_INNER_RANK = {"resnet": 0, "attn": 2, "block": 3}
_OUT = ("unet.conv_out", "noise_pred.unconditional", "noise_pred.conditional", "noise_pred.guided", "x0_pred")


def place(address: str) -> Place:
    """Find group, order and label of a site.

    Examples
    --------
    >>> place("unet.down.0.attn.1.cross").label
    '0 · attn 1 · cross'
    >>> sorted(["unet.up.0", "unet.mid", "unet.down.0", "unet.down.0.resnet.0"], key=place)
    ['unet.down.0.resnet.0', 'unet.down.0', 'unet.mid', 'unet.up.0']
    """
    if match := _TEXT.match(address):
        encoder = int(match[1] or 0)
        depth = {"embeddings": -1, "final": 9999}.get(match[2], int(match[3] or 0))
        label = match[2].replace("layers.", "layer ")
        return Place((0, encoder, depth), "text", f"{encoder} · {label}" if match[1] else label)
    if address in ("latent", "unet.conv_in"):
        return Place((1, int(address != "latent")), "in", address.removeprefix("unet."))
    if match := _BLOCK.match(address):
        group, block = match[1], int(match[2])
        rank, label = _inside_block(match[3])
        return Place((GROUPS.index(group), block, *rank), group, f"{block} · {label}")
    if match := _MID.match(address):
        rank, label = _inside_block(match[1])
        if match[1] and match[1].startswith("resnet"):
            rank = (rank[0], rank[1] - 1, 9)  # the middle block runs resnet 0, attention 0, resnet 1, …
        return Place((3, 0, *rank), "mid", label)
    if address in _OUT:
        return Place(
            (5, _OUT.index(address)), "out", address.removeprefix("unet.").replace("noise_pred.", "noise ")
        )
    if address == "latent.final":
        return Place((5, len(_OUT)), "out", "final latent")
    if address.startswith("vae."):
        return _decoder(address)
    if address == "image":
        return Place((7,), "image", "image")
    return Place((8, *map(ord, address)), "other", address)


def _inside_block(inner: str | None) -> tuple[tuple[int, int, int], str]:
    if inner is None:
        return (2, 0, 0), "block output"
    if match := _INNER.match(inner):
        kind, index, rest = match[1], int(match[2]), match[3]
        # cross-attention is inside the transformer, so it comes before the transformer's output
        rank = _INNER_RANK[kind] - (1 if rest else 0)
        return (0, index, rank), f"{kind} {index}" + (f" · {rest}" if rest else "")
    return (1, 0, 0), inner.replace(".", " ")


def _decoder(address: str) -> Place:
    name = address.removeprefix("vae.").removeprefix("decoder.")
    order = {"post_quant": (0,), "conv_in": (1,), "mid": (2,), "conv_out": (4,)}
    if match := re.match(r"^up\.(\d+)(.*)$", name):
        return Place((6, 3, int(match[1]), len(match[2])), "decoder", name.replace(".", " "))
    return Place((6, *order.get(name, (5,))), "decoder", name.replace("_", " ").replace(".", " "))


def readable(address: str) -> str:
    """Name a site in running text: its group, then its label."""
    where = place(address)
    if where.group in ("down", "up", "mid", "decoder"):
        return f"{where.group} {where.label}" if where.group != "mid" else f"mid · {where.label}"
    return where.label


_SPACES = {
    "text": "prompt",
    "unet": "denoising",
    "latent": "denoising",
    "noise_pred": "denoising",
    "x0_pred": "denoising",
    "vae": "image",
    "image": "image",
}


def space(site: str) -> str:
    """Return the space that a site lies in.

    Raises
    ------
    ValueError
        If the address begins with no known part of a model.

    Examples
    --------
    >>> space("text.layers.3"), space("unet.up.2.attn.1.cross"), space("vae.decoder.mid")
    ('prompt', 'denoising', 'image')
    """
    root = site.split(".")[0]
    found = _SPACES.get("text" if root.startswith("text") else root)
    if found is None:
        raise ValueError(f"site: expected an address such as unet.mid, got {site!r}")
    return found


def has_steps(site: str) -> bool:
    """Whether a site has a value at every call of the U-Net, and not one for the whole generation.

    Examples
    --------
    >>> has_steps("latent"), has_steps("latent.final"), has_steps("vae.decoder.mid")
    (True, False, False)
    """
    return space(site) == "denoising" and site != "latent.final"
