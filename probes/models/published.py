"""Published diffusion transformers: their configurations and sizes, known without a download. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

# parameters of the text encoders, counted on the configurations of the models that they were taken from, and of
# Qwen2.5-VL, of which a part looks at pictures, as the hub states them
TOWERS = {
    "clip-l": 123_060_480,
    "clip-g": 694_659_840,
    "t5-xxl": 4_762_310_656,
    "gemma-2-2b": 2_614_341_888,
    "qwen3-4b": 4_022_468_096,
    "qwen2.5-vl-7b": 8_292_166_656,
}
_BYTES = 2  # of a number in bfloat16, in which they are published and drawn with


@cache
def published() -> Mapping[str, Mapping[str, Any]]:
    """Published models by their ids on the hub: class and configuration of the transformer, its size, text encoders."""
    text = (files(__package__) / "published_transformers.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)["models"]


def gigabytes(identifier: str) -> float | None:
    """Memory of a known model's transformer and text encoders in bfloat16, in 10^9 bytes; None for others."""
    entry = published().get(identifier)
    if entry is None:
        return None
    return _BYTES * (entry["parameters"] + sum(TOWERS[name] for name in entry["towers"])) / 1e9
