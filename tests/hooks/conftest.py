"""Shared by the tests of the hooks: tiny pipelines, a way to draw, a count of every hook on every module.

`TRIPTYCH_TEST_DEVICE=cuda` runs the tests that take the `device` fixture on that device.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.tiny import tiny_pipeline
from tests.tiny_transformers import tiny_transformer_pipeline

PROMPTS = ["a person holding an umbrella", "a woman holding an umbrella", "a man holding an umbrella"]


@pytest.fixture(scope="session")
def pipelines() -> Callable[[str], Any]:
    """One pipeline of each kind for all tests; a test that alters one makes its own."""
    return functools.cache(tiny_pipeline)


@pytest.fixture(scope="session")
def dit() -> Callable[[str], Any]:
    """One diffusion transformer of each kind for all tests; a test that alters one makes its own."""
    return functools.cache(tiny_transformer_pipeline)


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


def recorded_steps(pipe: Any, monkeypatch: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The prediction that the scheduler is given at each step, and the latent that it takes for the last."""
    step, seen = pipe.scheduler.step, []

    @functools.wraps(step)  # the pipeline looks at its signature to choose the arguments
    def record(output: Any, timestep: Any, sample: Any, **kwargs: Any) -> Any:
        result = step(output, timestep, sample, **{**kwargs, "return_dict": True})
        seen.append((output, result.pred_original_sample))
        return (result.prev_sample,)

    monkeypatch.setattr(pipe.scheduler, "step", record)
    return seen


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


@pytest.fixture
def bfloat16_attention() -> Iterator[None]:
    """Attention in bfloat16, by torch's plain kernel where its fast one refuses.

    Told by ATEN_CPU_CAPABILITY to use less than the processor has, torch 2.14 still packs bfloat16 matrices for what
    the processor has, and raises: "pack_vnni2 is only supported when avx512 is supported".
    """
    rows = torch.zeros((1, 1, 64, 16), dtype=torch.bfloat16)
    try:
        torch.nn.functional.scaled_dot_product_attention(rows, rows, rows)
        kernels = nullcontext()
    except RuntimeError:
        kernels = sdpa_kernel(SDPBackend.MATH)
    with kernels:
        yield
