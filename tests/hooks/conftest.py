"""Shared by the tests of the hooks: tiny pipelines, a way to draw, a count of every hook on every module.

`TRIPTYCH_TEST_DEVICE=cuda` runs the tests that take the `device` fixture on that device.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.tiny import tiny_pipeline

PROMPTS = ["a person holding an umbrella", "a woman holding an umbrella", "a man holding an umbrella"]


@pytest.fixture(scope="session")
def pipelines() -> Callable[[str], Any]:
    """One pipeline of each kind for all tests; a test that alters one makes its own."""
    made: dict[str, Any] = {}

    def get(kind: str) -> Any:
        if kind not in made:
            made[kind] = tiny_pipeline(kind)
        return made[kind]

    return get


@pytest.fixture(scope="session")
def device() -> str:
    return os.environ.get("TRIPTYCH_TEST_DEVICE", "cpu")


@pytest.fixture(scope="session")
def toy(pipelines) -> Any:
    return pipelines("toy")


def draw(pipe: Any, prompt: list[str] | None = PROMPTS, **call: Any) -> Any:
    """Images as an array, every row from the same noise."""
    rows = len(prompt) if prompt is not None else len(call["prompt_embeds"])
    rows *= call.get("num_images_per_prompt", 1)
    call.setdefault("generator", [torch.Generator().manual_seed(5) for _ in range(rows)])
    call.setdefault("num_inference_steps", 3)
    call.setdefault("guidance_scale", 4.0)
    call.setdefault("output_type", "np")
    return pipe(prompt=prompt, **call).images


def all_hooks(pipe: Any) -> dict[str, int]:
    """Every entry of every hook dictionary of every module, and what `with_kwargs` leaves beside them."""
    counts = {}
    for part, component in pipe.components.items():
        if isinstance(component, torch.nn.Module):
            for name, module in component.named_modules():
                for attribute, value in vars(module).items():
                    if "hook" in attribute and isinstance(value, dict):
                        counts[f"{part}.{name}.{attribute}"] = len(value)
    return counts
