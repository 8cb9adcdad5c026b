"""Networks that turn images into vectors, with the libraries' transforms."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from analysis.observe.checkpoints import fit, read_weights
from analysis.observe.features.registry import Feature
from analysis.observe.features.weights import description, place, transform_settings, weight_file
from probes.models.pretrained import open_clip_by_name, open_clip_model, readable, timm_model

Read = Callable[[Any, torch.Tensor], torch.Tensor]  # of a network and pixels
_READ: Mapping[str, Read] = {
    "pooled": lambda model, pixels: model.forward_head(model.forward_features(pixels), pre_logits=True),
    "logits": lambda model, pixels: model(pixels),
    "class_token": lambda model, pixels: model.forward_features(pixels)[:, 0],
    "patch_tokens": lambda model, pixels: model.forward_features(pixels)[:, model.num_prefix_tokens :],
    "embedding": lambda model, pixels: model.encode_image(pixels),
    "pool3": lambda model, pixels: model(pixels)[0],
}


class Embedder:
    """A feature's network, loaded; ``transform`` makes a picture its input, ``(3, height, width)``."""

    def __init__(self, feature: Feature, path: Path, device: torch.device):
        self.feature, self.device = feature, device
        model, self.transform = _LOAD[feature.library](feature, path)
        self.model = model.to(device).eval()
        with _readable(feature, path, f"a network that gives {feature.readout}"):
            self._rehearse()

    def _rehearse(self) -> None:
        """Read a blank image, so that a network of another kind is refused before any image is read."""
        read = self([np.zeros((64, 64, 3), np.uint8)])
        wanted = 3 if self.feature.readout == "patch_tokens" else 2
        if read.ndim != wanted or not read.numel():
            raise ValueError(f"values of shape {tuple(read.shape[1:])} for an image")
        if not torch.isfinite(read).all():
            raise ValueError("values that are no numbers")

    @torch.inference_mode()
    def __call__(self, images: Sequence[np.ndarray]) -> torch.Tensor:
        """Return the features of images ``(height, width, 3)`` uint8 RGB, ``(n, d)`` float32 on the device.

        Of patch tokens ``(n, patches, d)``, row by row.
        """
        pixels = torch.stack([self.transform(Image.fromarray(image)) for image in images])
        return _READ[self.feature.readout](self.model, pixels.to(self.device)).float()


def _timm(feature: Feature, path: Path) -> tuple[Any, Any]:
    import timm
    from timm.data import create_transform

    described = description(feature, path)
    architecture = described.get("architecture", feature.architecture)
    file = weight_file(feature, path)
    weights = read_weights(file, place(feature))

    with _readable(feature, path, f"a network of timm {timm.__version__}"):
        options = dict(described.get("model_args") or {})
        if "num_classes" in described:
            options["num_classes"] = described["num_classes"]
        model = timm_model(architecture, options)
        transform = create_transform(**transform_settings(feature, path), is_training=False)
    fit(model, weights, path=file, field=place(feature), what=architecture)
    return model, transform


def _open_clip(feature: Feature, path: Path) -> tuple[Any, Any]:
    with _readable(feature, path, "an open_clip model"):
        if path.is_file():
            return open_clip_by_name(feature.architecture, str(path))
        return open_clip_model(path, weight_file(feature, path))


def _inception(feature: Feature, path: Path) -> tuple[Any, Any]:
    """The network by torch-fidelity, which resizes images itself; its file read as plain tensors."""
    from torchvision.transforms.functional import pil_to_tensor

    from analysis.observe.quality import require

    require()
    from torch_fidelity.feature_extractor_inceptionv3 import FeatureExtractorInceptionV3

    tensors = io.BytesIO()  # the package itself would run what a pickle says
    torch.save(read_weights(path, place(feature)), tensors)
    tensors.seek(0)
    with _readable(feature, path, "the Inception weights of torch-fidelity"):
        model = FeatureExtractorInceptionV3(
            feature.architecture, ["2048"], feature_extractor_weights_path=tensors
        )
    return model, pil_to_tensor


_LOAD = {"timm": _timm, "open_clip": _open_clip, "torch_fidelity": _inception}


def _readable(feature: Feature, path: Path, expected: str) -> AbstractContextManager[None]:
    return readable(f"{place(feature)}: {path}", expected, "give a folder or a file that holds one")
