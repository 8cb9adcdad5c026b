"""Ground truth of the located benchmark models: where the indicator enters (:file:`benchmark_models.yaml`)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

import yaml


def block_of(site: str) -> str:
    """Return the name of the transformer block in the U-Net that a cross-attention is of."""
    kind, *stage, _, number, _ = site.removeprefix("unet.").split(".")
    name = {"down": "down_blocks", "mid": "mid_block", "up": "up_blocks"}[kind]
    return ".".join([name, *stage, "attentions", number, "transformer_blocks", "0"])


@dataclass(frozen=True)
class LocatedModel:
    """Ground truth of a located benchmark model."""

    name: str
    kind: str  # null or cross-attention
    world: str  # whose planted frequencies its words are to follow
    sites: tuple[str, ...]  # the cross-attentions at which alone the word enters

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
