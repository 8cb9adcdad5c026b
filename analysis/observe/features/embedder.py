"""Networks that turn images into vectors, with the libraries' transforms."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from analysis.observe.checkpoints import fit, read_weights
from analysis.observe.features.registry import Feature
from analysis.observe.features.weights import description, place, transform_settings, weight_file
from probes.errors import UserError

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
    """A feature's network, loaded.

    Parameters
    ----------
    feature : Feature
    path : Path
        File or folder of its weights.
    device : torch.device

    Attributes
    ----------
    model : torch.nn.Module
    transform : callable
        From a `PIL.Image.Image` to the network's input, ``(3, height, width)``.

    Raises
    ------
    UserError
        The weights are damaged, or of another network.
    """

    def __init__(self, feature: Feature, path: Path, device: torch.device):
        self.feature, self.device = feature, device
        model, self.transform = _LOAD[feature.library](feature, path)
        self.model = model.to(device).eval()

    @torch.inference_mode()
    def __call__(self, images: Sequence[np.ndarray]) -> torch.Tensor:
        """What is read of each image, float32 on the device.

        Parameters
        ----------
        images
            Each ``(height, width, 3)`` uint8 RGB.

        Returns
        -------
        torch.Tensor
            ``(n, d)``; of patch tokens ``(n, patches, d)``, row by row.
        """
        pixels = torch.stack([self.transform(Image.fromarray(image)) for image in images])
        return _READ[self.feature.readout](self.model, pixels.to(self.device)).float()


def _timm(feature: Feature, path: Path) -> tuple[Any, Any]:
    import timm
    from timm.data import create_transform

    described = description(feature, path)
    architecture = described.get("architecture", feature.architecture)
    options = dict(described.get("model_args") or {})
    if "num_classes" in described:
        options["num_classes"] = described["num_classes"]
    try:
        model = timm.create_model(architecture, **options)
    except (RuntimeError, TypeError, ValueError) as error:
        raise _other(feature, path, f"a network of timm {timm.__version__}", error) from error
    file = weight_file(feature, path)
    weights, wanted = read_weights(file, place(feature)), model.state_dict()
    # files older than torch 0.4.1 do not count batches, and nothing that is read here uses the count
    counts = {name: value for name, value in wanted.items() if name.endswith("num_batches_tracked")}
    fit(model, counts | weights, path=file, field=place(feature), what=architecture)
    return model, create_transform(**transform_settings(feature, path), is_training=False)


def _open_clip(feature: Feature, path: Path) -> tuple[Any, Any]:
    import open_clip

    name, options = f"local-dir:{path}", {}
    if path.is_file():
        name, options = feature.architecture, {"pretrained": str(path)}
    try:
        # never a pickle that is not plain tensors
        return open_clip.create_model_from_pretrained(name, weights_only=True, **options)
    except Exception as error:  # on damaged files torch raises errors of every kind
        raise _other(feature, path, "an open_clip model", error) from error


def _inception(feature: Feature, path: Path) -> tuple[Any, Any]:
    """The network by torch-fidelity, which resizes images itself; its file read as plain tensors."""
    from torchvision.transforms.functional import pil_to_tensor

    from analysis.observe.quality import require

    require()
    from torch_fidelity.feature_extractor_inceptionv3 import FeatureExtractorInceptionV3

    tensors = io.BytesIO()  # the package itself would run what a pickle says
    torch.save(read_weights(path, place(feature)), tensors)
    tensors.seek(0)
    try:
        model = FeatureExtractorInceptionV3(
            feature.architecture, ["2048"], feature_extractor_weights_path=tensors
        )
    except RuntimeError as error:
        raise _other(feature, path, "the Inception weights of torch-fidelity", error) from error
    return model, pil_to_tensor


_LOAD = {"timm": _timm, "open_clip": _open_clip, "torch_fidelity": _inception}


def _other(feature: Feature, path: Path, expected: str, error: Exception) -> UserError:
    first = (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
    return UserError(
        f"{place(feature)}: {path}: expected {expected}, got `{first}`: give a folder or a file that holds one"
    )
