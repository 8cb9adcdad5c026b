"""What a trace exchanges of a model: what is swept, and by which ways the text reaches the image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hooks.architectures.text_encoders import TEXT_ENCODERS

POOLED = "text.pooled"


@dataclass(frozen=True)
class PatchSites:
    """What a model has that activations can be exchanged at."""

    # the attentions by which the image reads the text (cross- or joint ones), in the order in which they run
    cross: tuple[str, ...]
    sites: tuple[str, ...]  # those that are swept
    heads: Mapping[str, int]  # sites whose heads are swept, and how many they have
    # layers of text encoders that the denoiser may be given, where a position knows nothing of what comes after it
    layers: tuple[str, ...]
    calls: int  # of the denoiser: steps, and what a scheduler adds to them
    # where a diffusion transformer is given its text; empty in a U-Net, whose cross-attentions read it alone
    inputs: tuple[str, ...] = ()
    # those of each text encoder, where the tokens of a word are known
    embeddings: tuple[str, ...] = ("text.embeddings",)
    # sites of the sweep within the denoiser that have a row for each token
    by_token: frozenset[str] = frozenset()
    denoiser: str = "U-Net"  # what it is called
    # whether it masks or pads a text by its length (`hooks.architectures.base.Architecture`)
    masked: bool = False

    @property
    def ways(self) -> tuple[str, ...]:
        """All by which the text reaches the image: the pooled text, where there is one, then the attentions."""
        return (*(one for one in self.inputs if one == POOLED), *self.cross)


def in_text(site: str) -> bool:
    """Return whether a site is written while a text encoder runs."""
    return site.partition(".")[0] in TEXT_ENCODERS and site != POOLED


def is_attention(site: str) -> bool:
    """Return whether an address, such as ``unet.mid.attn.0.cross``, is one of an attention."""
    return site.rpartition(".")[2] in ("cross", "self", "joint")


def of_the_text(site: str, part: str) -> str:
    """Return the address under which the keys and values that an attention's text gives it are written."""
    return f"{site}.text" if site.endswith(".joint") and part in ("key", "value") else site
