"""Meaning of a site's address in any architecture: runs store addresses, no models.

Addresses are those of `hooks.sites` (``unet.down.0.attn.1.cross``). Needs no torch and no model.
"""

from __future__ import annotations

from hooks.architectures.places import DENOISING, GROUPS, Place
from hooks.architectures.registry import ARCHITECTURES


def place(address: str) -> Place:
    """Find group, order, label, space and moment of a site.

    An address that no architecture knows sorts behind all others, in the group ``other``, without a space.

    Examples
    --------
    >>> place("unet.down.0.attn.1.cross").label
    '0 · attn 1 · cross'
    >>> sorted(["unet.up.0", "unet.mid", "unet.down.0", "unet.down.0.resnet.0"], key=place)
    ['unet.down.0.resnet.0', 'unet.down.0', 'unet.mid', 'unet.up.0']
    """
    places = (architecture.place(address) for architecture in ARCHITECTURES)
    rank = (GROUPS.index("other"), *map(ord, address))
    return next((one for one in places if one is not None), Place(rank, "other", address, None, None))


def readable(address: str) -> str:
    """Name a site in running text: its group, then its label.

    Examples
    --------
    >>> readable("unet.mid.attn.0.cross"), readable("text_2.embeddings"), readable("text.pooled")
    ('mid · attn 0 · cross', 'text encoder 2 · embeddings', 'pooled text')
    """
    where = place(address)
    if address.startswith("text_"):
        return f"text encoder {where.label}"
    if address == "text.pooled":
        return "pooled text"
    if where.group in ("down", "up", "mid", "decoder"):
        return f"{where.group} {where.label}" if where.group != "mid" else f"mid · {where.label}"
    return where.label


def space(site: str) -> str:
    """Return the space that a site lies in.

    Examples
    --------
    >>> space("text.layers.3"), space("unet.up.2.attn.1.cross"), space("vae.decoder.mid")
    ('prompt', 'denoising', 'image')
    """
    lies_in = place(site).space
    if lies_in is None:
        raise ValueError(f"site: expected an address such as unet.mid, got {site!r}")
    return lies_in


def has_steps(site: str) -> bool:
    """Return whether a site has a value at every call of the denoiser, and not one for the whole generation.

    Examples
    --------
    >>> has_steps("latent"), has_steps("latent.final"), has_steps("vae.decoder.mid")
    (True, False, False)
    """
    return place(site).moment == DENOISING
