"""Observers of features: the vectors of a network, or the similarity of two images patch by patch.

Each feature is an observer with parts of its own, ``features/<name>``, so that one more is added without making
the others anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.observe.checkpoints import TOYWORLD
from analysis.observe.features.attribute_audit import clip_name, places, texts
from analysis.observe.features.registry import FEATURES, Feature
from analysis.observe.features.weights import PLACE, identity, locate, weight_file
from analysis.observe.observer import ImageModel, ImageObserver, StoredImage
from probes.config.schema import Config
from probes.errors import UserError
from probes.paths import display_name
from probes.runs import schemas as runs_schemas
from probes.runs.run import Run
from probes.toyworld import MODELS
from probes.toyworld.draw import SIZE

if TYPE_CHECKING:
    import torch

    from analysis.observe.features.embedder import Embedder

PACKAGES = {"open_clip": "open_clip_torch", "torch_fidelity": "torch-fidelity"}  # else as the library


class FeatureNetwork(ImageModel):
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
        return ("torch", "torchvision", PACKAGES.get(self.feature.library, self.feature.library))

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


class FeatureObserver(ImageObserver):
    """Stores a vector of each image by a `FeatureNetwork`; see :class:`analysis.observe.observer.ImageObserver`."""

    schema, batch_field = runs_schemas.FEATURES, "observe.feature_batch"

    def __str__(self) -> str:
        feature = self.model.feature
        return f"{feature.name} ({feature.readout.replace('_', ' ')}), weights {self.model.weights}"

    def read(self, images: Sequence[StoredImage]) -> Sequence[torch.Tensor]:
        """The features of each image."""
        return self.model.embedder([image.pixels for image in images])

    def rows(self, image: StoredImage, seen: torch.Tensor | None) -> list[dict[str, Any]]:
        """One row per image: its vector, or why there is none."""
        return [{"vector": None if seen is None else seen.cpu().numpy(), "reason": image.fault}]

    def record(self, run: Run) -> dict[str, Any]:
        """The weights and how an image is prepared for them, under the name of its parts."""
        weights = {"weights": display_name(self.model.weights), **self.model.identity()}
        return {self.name: {**weights, "versions": self.versions}}


class SplitProductObserver(FeatureObserver):
    """Observer of the split-product: the similarity of every two images of a triplet and seed.

    Patch tokens are not stored: 784 × 768 of them in float16 are 1.2 MB an image, 185 GB for the 153,657 images of the
    paper's largest data set, and nothing but the maximum over patches is ever read.
    """

    schema, whole_triplets = runs_schemas.FEATURE_PAIRS, True

    def observe(self, images: Sequence[StoredImage]) -> dict[str, list[dict[str, Any]]]:
        """One row per pair of readable images of one triplet and seed, in the order of the indicators."""
        readable = [image for image in images if image.pixels is not None]
        batches = (readable[start : start + self.batch] for start in range(0, len(readable), self.batch))
        tokens = [image_tokens for batch in batches for image_tokens in self.read(batch)]
        members: dict[tuple[int, int], dict[str, torch.Tensor]] = {}
        for image, image_tokens in zip(readable, tokens):
            key = image.key
            members.setdefault((key["triplet"], key["seed"]), {})[key["indicator"]] = image_tokens
        rows = [
            {
                "triplet": triplet,
                "seed": seed,
                "pair": f"{first}-{second}",
                "value": float(split_product(by_indicator[first], by_indicator[second])),
            }
            for (triplet, seed), by_indicator in members.items()
            for first, second in combinations(
                [name for name in self.config.indicators if name in by_indicator], 2
            )
        ]
        return {self.name: rows}


def split_product(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Return the largest cosine of corresponding patches of two images, tokens ``(patches, d)`` in the same order.

    From -1 to 1, computed in float64; the cosine with a token of zeros is 0.

    Source: Wu et al. 2025, section 4.1.3, after Somepalli et al. 2023: "the maximum cosine similarity among
    corresponding patches". That the tokens are those of the last layer after its norm, class token left out, is a
    choice of ours; the paper leaves it open.
    """
    from torch.nn.functional import normalize

    one, other = (normalize(tokens.double().cpu(), dim=-1) for tokens in (first, second))
    return (one * other).sum(-1).max()


def feature_observer(name: str, config: Config) -> tuple[FeatureObserver | None, str]:
    """The observer of a feature where a configuration asks for it; else none, and why (nothing: not asked for)."""
    feature, settings = FEATURES[name], config.observe
    _check_names(config)
    if not is_requested(name, config):
        return None, ""
    kind = SplitProductObserver if feature.readout == "patch_tokens" else FeatureObserver
    named = settings.feature_weights.get(name)
    if named is None and of_toyworld(config) and feature.toyworld:
        named = TOYWORLD
    if named is not None or name in settings.features or locate(feature, feature.weights, fetch=False):
        network = FeatureNetwork(feature, named or feature.weights)
        return kind(config, network, f"features/{name}", settings.feature_batch), ""
    return None, f"no weights on this machine: name a file, a folder or a hub id in `{PLACE}`"


def is_requested(name: str, config: Config) -> bool:
    """Return whether a configuration asks for a feature: by name, as one of the usual ones, or for an audit (GEP)."""
    chosen = config.observe.features
    of_audit = name == clip_name(config) and bool(places(config))
    return of_audit or (name in chosen if isinstance(chosen, list) else FEATURES[name].usual)


def _check_names(config: Config) -> None:
    texts(config)  # says what is wrong with an audit's sentences before anything is drawn
    settings = config.observe
    names = settings.features if isinstance(settings.features, list) else []
    places = {**dict.fromkeys(names, "observe.features"), **dict.fromkeys(settings.feature_weights, PLACE)}
    clips = [name for name, feature in FEATURES.items() if feature.library == "open_clip"]
    if clip_name(config) not in clips:
        raise UserError(
            f"gep.clip: expected {' or '.join(clips)}, got {clip_name(config)!r:.60}: name one of them"
        )
    for name, field in places.items():
        if name not in FEATURES:
            raise UserError(f"{field}: expected {', '.join(FEATURES)}, got {name!r:.60}: name one of them")


def of_toyworld(config: Config) -> bool:
    """Return whether the images are of a bundled benchmark model, in the size that their networks were trained on."""
    size = {config.sampler.height, config.sampler.width} - {None, SIZE}
    return config.model in MODELS and not size
