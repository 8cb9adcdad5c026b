"""Small checkpoints, made once."""

import numpy as np
import pytest

from tests.analysis.observe.tiny_models import save_detector, save_segmenter


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoints")
    return {"detector": str(save_detector(folder)), "segmenter": str(save_segmenter(folder))}


@pytest.fixture(scope="session")
def noise():
    """Six images of 64 x 64 and two of 80 x 64 (height, width)."""
    rng = np.random.default_rng(0)
    sizes = [(64, 64)] * 6 + [(80, 64)] * 2
    return [rng.integers(0, 256, (*size, 3), dtype=np.uint8) for size in sizes]
