"""A feature's network from named weights, which an observer or a reader loads."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.observe.features.registry import Feature
from analysis.observe.features.weights import identity, locate, weight_file

if TYPE_CHECKING:
    import torch

    from analysis.observe.features.embedder import Embedder

_LIBRARIES = {"timm": "timm", "open_clip": "open_clip_torch", "torch_fidelity": "torch-fidelity"}


class FeatureNetwork:
    """A feature's network, the model of an observer, from weights that are named as `locate` takes them."""

    embedder: Embedder  # once it is loaded

    def __init__(self, feature: Feature, weights: str):
        self.feature, self.weights = feature, weights
        locate(feature, weights, fetch=False)  # refuses those that are nowhere

    @cached_property
    def path(self) -> Path:
        """Path of the weights on this machine; fetches those of the hub."""
        return locate(self.feature, self.weights)  # type: ignore[return-value]

    @property
    def libraries(self) -> tuple[str, ...]:
        """Packages of the network."""
        return ("torch", "torchvision", _LIBRARIES[self.feature.library])

    @property
    def files(self) -> list[Path]:
        """The weights."""
        return [weight_file(self.feature, self.path)]

    def identity(self) -> dict[str, Any]:
        """Checkpoint, network, readout and transform."""
        return identity(self.feature, self.path)

    def load(self, device: torch.device) -> None:
        """Load the network."""
        from analysis.observe.features.embedder import Embedder

        self.embedder = Embedder(self.feature, self.path, device)
