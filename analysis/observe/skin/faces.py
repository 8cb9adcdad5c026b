"""The cheeks of faces by FAN's landmarks (Bulat and Tzimiropoulos 2017), as DALL-Eval uses it: ``face-alignment``.

The library is optional (``pip install 'triptych[faces]'``). It fetches its checkpoints by their addresses; here they
are files that are named or in torch's folder of checkpoints, read without running code and checked against the
networks.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Sequence
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from skimage.draw import polygon2mask

from analysis.observe.checkpoints import find, fit, read_weights, sha256
from analysis.observe.skin.regions import Region, SkinSource
from probes.errors import UserError, pip_line

PLACE = "observe.skin_tone"
# Of the 68 landmarks (iBUG 300-W) from 0, jaw 0-16, nose 27-35, eyes 36-47, mouth 48-67: those
# below an eye, beside nose and mouth, and along the jaw; drawn in by a quarter, away from hair and edges
_CHEEKS = ((1, 41, 40, 31, 48, 4, 3, 2), (15, 46, 47, 35, 54, 12, 13, 14))
_DRAWN_IN = 0.75


class FaceSkin(SkinSource):
    """The cheeks of an image's largest face, by FAN and its face detector S3FD; refused without their library."""

    libraries = (*SkinSource.libraries, "torch", "face-alignment")

    def __init__(self, landmarks: str, detector: str):
        if importlib.util.find_spec("face_alignment") is None:
            raise UserError(
                f"{PLACE}.region: face-alignment: expected the library of that name, found none: run"
                f" {pip_line('faces')}"
            )
        self.names = {"landmarks": landmarks, "detector": detector}
        for kind, name in self.names.items():
            find(name, f"{PLACE}.{kind}", fetch=False)

    def __str__(self) -> str:
        landmarks, detector = self.names.values()
        return f"cheeks of the largest face, landmarks by {landmarks} of faces by {detector}"

    @cached_property
    def paths(self) -> dict[str, Path]:
        """The checkpoint files on this machine."""
        return {kind: find(name, f"{PLACE}.{kind}") for kind, name in self.names.items()}  # type: ignore[misc]

    @property
    def files(self) -> list[Path]:  # type: ignore[override]
        """The weights of both networks."""
        return [*self.paths.values()]

    def identity(self) -> dict[str, Any]:
        """The region of skin, the checksums of both checkpoints and the library's version."""
        library = {"library": f"face-alignment {version('face-alignment')}"}
        checksums = {kind: sha256(path) for kind, path in self.paths.items()}
        return {"region": "face-alignment", "skin": "cheeks", **checksums, **library}

    def load(self, device: Any) -> None:
        """Load both networks."""
        from face_alignment.api import FAN, FaceAlignment, LandmarksType
        from face_alignment.detection.sfd.net_s3fd import s3fd

        def fill(network: Any, kind: str, what: str) -> Any:
            path, field = self.paths[kind], f"{PLACE}.{kind}"
            fit(network, read_weights(path, field), path=path, field=field, what=what)
            return network

        class Named(FaceAlignment):
            """The library's own, with the weights of a file that is named in place of an address."""

            def _load_native(self, network_name: str, network_size: int, device: str, dtype: Any) -> Any:
                return (
                    fill(FAN(network_size), "landmarks", "FAN of four stacks").to(device, dtype=dtype).eval()
                )

        fill(s3fd(), "detector", "the face detector S3FD")  # which the library reads again
        self._network = Named(
            LandmarksType.TWO_D,
            device=str(device),
            flip_input=False,
            face_detector="sfd",
            face_detector_kwargs={"path_to_detector": str(self.paths["detector"])},
            compile=False,
        )

    def regions(self, images: Sequence[np.ndarray]) -> list[Region]:
        """Skin of the largest face of each image."""
        return [largest_face(image, self.faces(image)) for image in images]

    def faces(self, image: np.ndarray) -> list[np.ndarray]:
        """Landmarks of each face, ``(68, 2)``."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that there is no face is counted
            return self._network.get_landmarks_from_image(image) or []


def largest_face(image: np.ndarray, faces: Sequence[np.ndarray]) -> Region:
    """The cheeks of the largest of some faces, given by their landmarks."""
    if not len(faces):
        return Region("no face", reason="no face was found")
    face = max(faces, key=lambda points: float(np.ptp(points, axis=0).prod()))
    pixels = image[cheek_mask(face, image.shape[:2])]
    if not len(pixels):
        return Region("no skin", reason="the face is too small, or lies outside the image", landmarks=face)
    return Region("ok", pixels, f"the largest of {len(faces)} faces" if len(faces) > 1 else "", face)


def cheek_mask(landmarks: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Mask of the cheeks of a face, ``shape`` bool, from its landmarks ``(68, 2)``, x and y in pixels (iBUG 300-W)."""
    mask = np.zeros(shape, bool)
    for numbers in _CHEEKS:
        points = landmarks[[*numbers]]
        middle = points.mean(0)
        mask |= polygon2mask(shape, (middle + _DRAWN_IN * (points - middle))[:, ::-1])
    return mask
