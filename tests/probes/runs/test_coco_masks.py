"""Run lengths against pycocotools' own encoder."""

import numpy as np
import pytest
from pycocotools import mask as coco

from probes.runs.coco_masks import decode, encode, run_lengths


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (13, 7), (64, 48)])
def test_run_lengths_are_those_of_pycocotools(shape, share):
    rng = np.random.default_rng(0)
    for _ in range(20):
        mask = rng.random(shape) < share
        known = coco.encode(np.asfortranarray(mask, np.uint8))
        for stored in (mask, np.asfortranarray(mask), mask.tolist()):  # however it stands in memory
            assert run_lengths(stored) == known
        assert encode(mask) == known["counts"].decode()
        assert (decode(encode(mask), *shape) == mask).all()
