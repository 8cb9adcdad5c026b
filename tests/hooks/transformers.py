"""Shared by the tests of diffusion transformers: how they draw, and a run on which torch itself is listened to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from hooks.architectures.registry import architecture_of
from hooks.sites import attention_sites, module_at
from tests.tiny_transformers import call_options

READ = ("sd3", "sd35", "flux-dev", "flux-schnell", "pixart-alpha", "pixart-sigma", "sana")
# of different lengths, so that padding and masks differ by row
PROMPTS = [
    "a person holding an umbrella",
    "a woman holding an umbrella in the park",
    "a man holding an umbrella",
]
STEPS = 2


def draw(pipe: Any, kind: str, prompts: list[str] | None = PROMPTS, **call: Any) -> Any:
    """Images as an array, every row from the same noise."""
    rows = len(prompts) if prompts is not None else len(call["prompt_embeds"])
    rows *= call.get("num_images_per_prompt", 1)
    call.setdefault("generator", [torch.Generator().manual_seed(5) for _ in range(rows)])
    call = {"num_inference_steps": STEPS, "output_type": "np", **call_options(kind), **call}
    return pipe(prompt=prompts, **call).images


def heard(pipe: Any, run: Callable[[], Any], monkeypatch: Any) -> dict[str, list[dict[str, Tensor]]]:
    """Final queries, keys, values and masks of each attention to the text by address, one entry per call, in float64.

    Torch's function itself is replaced while `run` draws; rows of all branches are there.
    """
    plain = torch.nn.functional.scaled_dot_product_attention
    found: dict[str, list[dict[str, Tensor]]] = {}
    now: list[str] = []

    def listening(
        query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, **more: Any
    ) -> Tensor:
        if now:
            mask = None if attn_mask is None else attn_mask.detach().double()
            named = {"query": query, "key": key, "value": value}
            entry = {name: one.detach().double() for name, one in named.items()}
            assert more.get("scale") is None, "the oracle takes the usual scale"
            found.setdefault(now[-1], []).append({**entry, "mask": mask})
        return plain(query, key, value, attn_mask=attn_mask, **more)

    handles = []
    for site in attention_sites(pipe, "cross"):
        module = module_at(pipe, site.module)
        handles.append(module.register_forward_pre_hook(lambda m, a, name=site.address: now.append(name)))
        handles.append(module.register_forward_hook(lambda m, a, o: now.pop() and None))
    with monkeypatch.context() as patch:
        patch.setattr(torch.nn.functional, "scaled_dot_product_attention", listening)
        run()
    for handle in handles:
        handle.remove()
    return found


def probabilities(entry: dict[str, Tensor]) -> Tensor:
    """The eager softmax, shape (rows, heads, queries, keys)."""
    scores = entry["query"] @ entry["key"].mT / entry["query"].shape[-1] ** 0.5
    if entry["mask"] is not None:
        scores = scores + entry["mask"]
    return scores.softmax(dim=-1)


def streams(pipe: Any, address: str, entry: dict[str, Tensor], pixels: int) -> tuple[slice, slice]:
    """Positions of the image among the queries, and of the text among the keys, as section 2 of the plan lists them."""
    queries, keys = entry["query"].shape[-2], entry["key"].shape[-2]
    if queries == pixels:  # cross-attention
        return slice(None), slice(None)
    if type(pipe).__name__.startswith("StableDiffusion3"):
        return slice(0, pixels), slice(pixels, keys)
    return slice(keys - pixels, keys), slice(0, keys - pixels)


def rows_of_prompts(pipe: Any, values: Tensor, rows: int) -> Tensor:
    """Of a batch of all branches those of the prompts, which come last."""
    assert architecture_of(pipe).steps_at_scheduler
    return values[-rows:]
