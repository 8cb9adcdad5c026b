"""Ground truth of the located benchmark models: where the indicator enters (:file:`benchmark_models.yaml`)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

import yaml


def block_of(site: str) -> str:
    """Return the transformer block in the U-Net that a cross-attention is of.

    Examples
    --------
    >>> block_of("unet.mid.attn.0.cross")
    'mid_block.attentions.0.transformer_blocks.0'
    """
    kind, *stage, _, number, _ = site.removeprefix("unet.").split(".")
    name = {"down": "down_blocks", "mid": "mid_block", "up": "up_blocks"}[kind]
    return ".".join([name, *stage, "attentions", number, "transformer_blocks", "0"])


@dataclass(frozen=True)
class LocatedModel:
    """Ground truth of a located benchmark model.

    Attributes
    ----------
    name : str
        As in ``model:``.
    kind : str
        ``null`` or ``cross-attention``.
    world : str
        Whose planted frequencies its words are to follow.
    sites : tuple of str
        Addresses of the cross-attentions that read the code, at which alone the word enters; empty where it enters
        nowhere.
    """

    name: str
    kind: str
    world: str
    sites: tuple[str, ...]

    @property
    def blocks(self) -> tuple[str, ...]:
        """The transformer blocks of its sites: of their weights it has its own, beside those of the coded null."""
        return tuple(map(block_of, self.sites))


@cache
def located_models() -> Mapping[str, LocatedModel]:
    """Return the located benchmark models by name, from :file:`benchmark_models.yaml`."""
    data = yaml.safe_load(resources.files(__package__).joinpath("benchmark_models.yaml").read_text("utf-8"))
    return {
        name: LocatedModel(name, entry["kind"], entry["world"], tuple(entry["sites"]))
        for name, entry in data.items()
    }
