"""Images of prompts, each from a noise of its own."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


def images_of(pipe: Any, texts: Sequence[str], noise: Sequence[int], steps: int) -> NDArray[np.uint8]:
    """Return images ``(n, 64, 64, 3)`` of prompts, without guidance, from the seeds of their noise."""
    images = pipe(
        list(texts),
        generator=[torch.Generator().manual_seed(seed) for seed in noise],
        num_inference_steps=steps,
        guidance_scale=1.0,
        output_type="np",
    ).images
    return (images * 255).round().astype(np.uint8)
