"""The albedo of a face by TRUST (Feng et al. 2022, "Towards Racially Unbiased Skin Tone Estimation"), from its files.

Of the light of a scene and a crop of a face the published networks give the coefficients of an albedo in the texture
space of FLAME, and DALL-Eval reads the tone from the cheeks of that texture. The files are given out on registration,
for non-commercial research; what is tested here is their layout, with random weights.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from analysis.observe.checkpoints import fit, named_tensors, sha256
from probes.errors import UserError
from probes.models.pretrained import open_npz, read_tensors, readable
from probes.paths import expand_model

PLACE = "observe.skin_tone.trust"
# Files of the release (balanced albedo), and the mask of the cheeks that DALL-Eval published beside its code. A third
# network, of the light on the face, is needed to render it again and not for its albedo.
SCENE_LIGHT, ALBEDO = "E_scene_light_BalanceAlb.tar", "E_albedo_BalanceAlb.tar"
TEXTURE, MASK = "BalanceAlb_model.npz", "skin_for_ita_mask_cheeks.png"
FILES = (SCENE_LIGHT, ALBEDO, TEXTURE, MASK)
SIDE = 224  # of the scene and of the crop of the face
COEFFICIENTS, TEXTURE_SIDE, ALBEDO_SIDE = 54, 512, 256
CROP = 1.6  # side of the crop over the mean of the width and the height of the landmarks


class Trust:
    """Reads the albedo of faces; `folder` holds `FILES`."""

    def __init__(self, folder: str):
        self.folder = expand_model(folder, PLACE)
        missing = [name for name in FILES if not (self.folder / name).is_file()]
        if missing:
            raise UserError(
                f"{PLACE}: {self.folder}: expected {', '.join(FILES)}, found no {missing[0]}: register at"
                " trust.is.tue.mpg.de for TRUST's; the mask stands beside DALL-Eval's code"
            )
        self.files = [self.folder / name for name in FILES]

    def fields(self) -> dict[str, str]:
        """The checksum of every file."""
        return {f"trust/{file.name}": sha256(file) for file in self.files}

    def load(self, device: Any) -> None:
        """Load the networks, the texture and the mask."""
        self.device = device
        scene, albedo = encoder(3, 3), encoder(6, COEFFICIENTS)
        for network, name, key in ((scene, SCENE_LIGHT, "E_scene_light"), (albedo, ALBEDO, "E_albedo")):
            path = self.folder / name
            fit(network, _weights(path, key), path=path, field=PLACE, what=f"TRUST's {key}")
            network.to(self.device).eval()
        self._networks = scene, albedo
        _ = self._texture, self._mask

    @cached_property
    def _texture(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean ``(n,)`` and basis ``(n, 54)`` of the texture, 0 to 1."""
        path, size = self.folder / TEXTURE, 3 * TEXTURE_SIDE**2
        with readable(f"{PLACE}: {path}", "arrays mean and tex_dir"), open_npz(path) as data:
            mean, basis = (np.asarray(data[name], np.float32) / 255 for name in ("mean", "tex_dir"))
        if mean.size != size or basis.size != size * COEFFICIENTS:
            raise UserError(
                f"{PLACE}: {path}: expected {size} values of mean and {COEFFICIENTS} times as many of tex_dir, got"
                f" {mean.size} and {basis.size}: download it again"
            )
        return mean.reshape(-1), basis.reshape(-1, COEFFICIENTS)

    @cached_property
    def _mask(self) -> np.ndarray:
        """Mask ``(256, 256)`` bool of the cheeks in UV space."""
        import cv2

        path = self.folder / MASK
        picture = cv2.imread(str(path))
        if picture is None:
            raise UserError(f"{PLACE}: {path}: expected a picture, got something else: download it again")
        mask = cv2.resize(picture[..., 0], (ALBEDO_SIDE, ALBEDO_SIDE), interpolation=cv2.INTER_AREA) > 0
        if not mask.any():
            raise UserError(f"{PLACE}: {path}: expected a mask, got one that is all black: download it again")
        return mask

    def albedo(self, image: np.ndarray, landmarks: np.ndarray) -> np.ndarray:
        """Albedo of the cheeks of a face, ``(n, 3)`` float32 from 0 to 1, read as sRGB as the paper's code reads it."""
        return self.texture(self.coefficients(scene_square(image), face_crop(image, landmarks)))[self._mask]

    def coefficients(self, scene: np.ndarray, face: np.ndarray) -> np.ndarray:
        """The 54 coefficients of the albedo of a face, of a scene and a crop, ``(224, 224, 3)`` from 0 to 1."""
        import torch

        of_scene, of_albedo = self._networks
        pictures = (
            torch.from_numpy(np.stack([scene, face]).astype(np.float32)).permute(0, 3, 1, 2).to(self.device)
        )
        with torch.no_grad():
            light = of_scene(pictures[:1])  # the strength of red, green and blue
            light = light[:, :, None, None].expand(-1, -1, SIDE, SIDE)
            return of_albedo(torch.cat([light, pictures[1:]], dim=1))[0].cpu().numpy()

    def texture(self, coefficients: np.ndarray) -> np.ndarray:
        """The albedo in UV space, ``(256, 256, 3)`` RGB from 0 to 1; the model's channels are blue, green, red."""
        mean, basis = self._texture
        values = (mean + basis @ coefficients).reshape(TEXTURE_SIDE, TEXTURE_SIDE, 3)
        step = TEXTURE_SIDE // ALBEDO_SIDE
        return np.clip(values[::step, ::step, ::-1], 0, 1)


def encoder(channels: int, outputs: int) -> Any:
    """One of TRUST's encoders, with random weights: ResNet-50 of 3 or 6 channels, and two layers on its features."""
    from torch import nn
    from torchvision.models import resnet50

    backbone = resnet50(weights=None)
    backbone.fc = nn.Identity()
    if channels != 3:
        backbone.conv1 = nn.Conv2d(channels, 64, kernel_size=7, stride=2, padding=3, bias=False)
    layers = nn.Sequential(nn.Linear(2048, 1024), nn.ReLU(), nn.Linear(1024, outputs))

    return nn.Sequential(OrderedDict(encoder=backbone, layers=layers))


def _weights(path: Path, key: str) -> dict[str, Any]:
    """The weights of a network in a checkpoint, which holds them under its name."""
    with readable(f"{PLACE}: {path}", "a checkpoint"):
        data = read_tensors(path)
    weights = data.get(key) if isinstance(data, dict) else None
    if not named_tensors(weights):
        found = ", ".join(map(str, data)) if isinstance(data, dict) else type(data).__name__
        raise UserError(
            f"{PLACE}: {path}: expected the weights of {key} under that name, got {found:.80}: choose another"
        )
    return {name.removeprefix("module."): value for name, value in weights.items()}


def face_crop(image: np.ndarray, landmarks: np.ndarray) -> np.ndarray:
    """Square crop of a face, ``(224, 224, 3)`` from 0 to 1, black outside the image.

    The square is centred on the landmarks, the outermost of each side left out, and 1.6 times as wide as the mean of
    their width and height.
    """
    from skimage.transform import AffineTransform, warp

    ordered = np.sort(landmarks[:, :2], axis=0)
    low, high = ordered[1], ordered[-2]
    size = max(int((high - low).mean() * CROP), 1)
    inverse = AffineTransform(scale=size / (SIDE - 1), translation=(low + high) / 2 - size / 2)
    return warp(image / 255.0, inverse, output_shape=(SIDE, SIDE))


def scene_square(image: np.ndarray) -> np.ndarray:
    """The square in the middle of an image, ``(224, 224, 3)`` from 0 to 1.

    The published code takes one by chance, of two sizes; the middle, so that an image is read the same each time.
    """
    import cv2

    height, width = image.shape[:2]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    square = image[top : top + side, left : left + side] / 255.0
    return cv2.resize(square, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
