"""Landmarks of faces by FAN (Bulat and Tzimiropoulos 2017), as DALL-Eval uses it: the library ``face-alignment``.

The library is optional (``pip install 'triptych[faces]'``). It fetches its checkpoints by their addresses; here they
are files that are named or in torch's folder of checkpoints, read without running code and checked against the
networks.
"""

from __future__ import annotations

import importlib.util
import warnings
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from analysis.observe.checkpoints import find, fit, read_weights, sha256
from probes.errors import UserError, pip_line

PLACE = "observe.skin_tone"


def require_library() -> None:
    """Refuse an installation without ``face-alignment``."""
    if importlib.util.find_spec("face_alignment") is None:
        raise UserError(
            f"{PLACE}.region: face-alignment: expected the library of that name, found none: run"
            f" {pip_line('faces')}"
        )


class FaceAlignment:
    """FAN and its face detector S3FD: faces by the 68 landmarks of iBUG 300-W."""

    def __init__(self, landmarks: str, detector: str, device: str):
        self.names, self.device = {"landmarks": landmarks, "detector": detector}, device

    def __str__(self) -> str:
        return f"landmarks by {self.names['landmarks']} of faces by {self.names['detector']}"

    @cached_property
    def paths(self) -> dict[str, Path]:
        """The checkpoint files on this machine."""
        return {kind: find(name, f"{PLACE}.{kind}") for kind, name in self.names.items()}  # type: ignore[misc]

    def fields(self) -> dict[str, Any]:
        """The checksums of both checkpoints and the library's version."""
        from importlib.metadata import version

        return {
            **{kind: sha256(path) for kind, path in self.paths.items()},
            "library": f"face-alignment {version('face-alignment')}",
        }

    def load(self) -> None:
        """Load both networks."""
        require_library()
        from face_alignment.api import FAN, LandmarksType
        from face_alignment.api import FaceAlignment as Library
        from face_alignment.detection.sfd.net_s3fd import s3fd

        def fill(network: Any, kind: str, what: str) -> Any:
            path, field = self.paths[kind], f"{PLACE}.{kind}"
            fit(network, read_weights(path, field), path=path, field=field, what=what)
            return network

        class Named(Library):
            """The library's own, with the weights of a file that is named in place of an address."""

            def _load_native(self, network_name: str, network_size: int, device: str, dtype: Any) -> Any:
                return (
                    fill(FAN(network_size), "landmarks", "FAN of four stacks").to(device, dtype=dtype).eval()
                )

        fill(s3fd(), "detector", "the face detector S3FD")  # which the library reads again
        self._network = Named(
            LandmarksType.TWO_D,
            device=self.device,
            flip_input=False,
            face_detector="sfd",
            face_detector_kwargs={"path_to_detector": str(self.paths["detector"])},
            compile=False,
        )

    def faces(self, image: np.ndarray) -> list[np.ndarray]:
        """Landmarks of each face, ``(68, 2)``."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that there is no face is counted
            return self._network.get_landmarks_from_image(image) or []
