"""What to look for in an image: tags, each with the source it came from."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

# images and their prompts to one dict an image: tag in lower case to source, in the order they are looked for
Tags = Callable[[Sequence[np.ndarray], Sequence[str]], list[dict[str, str]]]


def fixed(tags: Sequence[str], source: str) -> Tags:
    """The same tags for every image."""
    return lambda images, prompts: [dict.fromkeys(tags, source) for _ in images]
