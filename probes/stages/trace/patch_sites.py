"""What a trace exchanges of a model: what is swept, and by which ways the text reaches the image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hooks.architectures.text_encoders import TEXT_ENCODERS

POOLED = "text.pooled"


@dataclass(frozen=True)
class PatchSites:
    """What a model has that activations can be exchanged at.

    Attributes
    ----------
    cross : tuple of str
        The attentions by which the image reads the text (cross- or joint attentions), in the order in which they run.
    sites : tuple of str
        Those that are swept.
    heads : mapping of str to int
        Sites whose heads are swept, and how many they have.
    layers : tuple of str
        Layers of text encoders in which a position knows nothing of what comes after it: those that the denoiser may be
        given.
    calls : int
        Of the denoiser: steps, and what a scheduler adds to them.
    shared : bool
        Whether a row may begin when it is first written (`probes.stages.trace.lazy_rows.possible`).
    inputs : tuple of str
        Where a diffusion transformer is given its text; empty in a U-Net, whose cross-attentions read it alone.
    embeddings : tuple of str
        Those of each text encoder, where the tokens of a word are known.
    by_token : frozenset of str
        Sites of the sweep within the denoiser that have a row for each token.
    denoiser : str
        What it is called.
    masked : bool
        Whether it masks or pads a text by its length (`hooks.architectures.base.Architecture`).
    """

    cross: tuple[str, ...]
    sites: tuple[str, ...]
    heads: Mapping[str, int]
    layers: tuple[str, ...]
    calls: int
    shared: bool = True
    inputs: tuple[str, ...] = ()
    embeddings: tuple[str, ...] = ("text.embeddings",)
    by_token: frozenset[str] = frozenset()
    denoiser: str = "U-Net"
    masked: bool = False

    @property
    def ways(self) -> tuple[str, ...]:
        """All by which the text reaches the image: the pooled text, where there is one, then the attentions."""
        return (*(one for one in self.inputs if one == POOLED), *self.cross)


def in_text(site: str) -> bool:
    """Return whether a site is written while a text encoder runs.

    Examples
    --------
    >>> in_text("text_2.layers.0"), in_text("text.pooled"), in_text("dit.in.text")
    (True, False, False)
    """
    return site.partition(".")[0] in TEXT_ENCODERS and site != POOLED


def is_attention(site: str) -> bool:
    """Return whether an address is one of an attention.

    Examples
    --------
    >>> (
    ...     is_attention("unet.mid.attn.0.cross"),
    ...     is_attention("unet.mid.attn.0"),
    ...     is_attention("dit.block.3.joint"),
    ... )
    (True, False, True)
    """
    return site.rpartition(".")[2] in ("cross", "self", "joint")


def of_the_text(site: str, part: str) -> str:
    """Return the address under which the keys and values that an attention's text gives it are written.

    Examples
    --------
    >>> of_the_text("dit.block.3.joint", "key"), of_the_text("dit.block.3.joint", "query")
    ('dit.block.3.joint.text', 'dit.block.3.joint')
    """
    return f"{site}.text" if site.endswith(".joint") and part in ("key", "value") else site
