"""Shared by the tests of diffusion transformers: how they draw, and a run on which torch itself is listened to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from hooks.sites import attention_sites, module_at
from tests.tiny_transformers import call_options

QUICK = (
    "sd3",
    "flux-dev",
    "pixart-sigma",
    "sana",
    "lumina2",
    "qwen-image",
)  # a layout each; the others are slow


COMMON = ("sd3", "flux-schnell", "lumina2", "z-image")  # one of each way to join texts and images


def tiers(cases: Iterable[Any], quick: Sequence[str] = QUICK) -> list[Any]:
    """Cases by kind, or tuples that begin with it, slow but for kinds of `quick`."""
    rows = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*row, marks=() if row[0] in quick else pytest.mark.slow) for row in rows]


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
    if call.get("negative_prompt") == "" and prompts is not None:  # Qwen's pipeline repeats one for no other
        call["negative_prompt"] = [""] * len(prompts)
    return pipe(prompt=prompts and list(prompts), **call).images  # Z-Image's pipeline alters the list


def heard(pipe: Any, run: Callable[[], Any], monkeypatch: Any) -> dict[str, list[dict[str, Tensor]]]:
    """Final queries, keys, values, masks and results of each attention to the text by address, an entry a call.

    Torch's function itself is replaced while `run` draws; rows of all branches are there.
    """
    plain = torch.nn.functional.scaled_dot_product_attention
    found: dict[str, list[dict[str, Tensor]]] = {}
    now: list[str] = []

    def listening(
        query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, *rest: Any, **more: Any
    ) -> Tensor:
        if rest:  # HunyuanDiT's pooling of the text
            return plain(query, key, value, attn_mask, *rest, **more)
        if now:
            named = {"query": query, "key": key, "value": value}
            entry = {name: one.detach().double() for name, one in named.items()}
            assert not more.get("enable_gqa") and not more.get("is_causal")
            scale = more.get("scale") or query.shape[-1] ** -0.5
            found.setdefault(now[-1], []).append({**entry, "mask": attn_mask, "scale": scale})
        result = plain(query, key, value, attn_mask=attn_mask, **more)
        if now:
            found[now[-1]][-1]["result"] = result.detach().double()
        return result

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
    scores, mask = entry["query"] @ entry["key"].mT * entry["scale"], entry["mask"]
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask.double()
    return scores.softmax(dim=-1)


def text_counts(pipe: Any, prompts: Sequence[str]) -> list[int]:
    """Tokens of each prompt as its pipeline writes it, counted by the tokenizer itself."""
    name, tokenizer = type(pipe).__name__, pipe.tokenizer
    if name == "ZImagePipeline":
        told = [[{"role": "user", "content": prompt}] for prompt in prompts]
        texts = [
            tokenizer.apply_chat_template(one, tokenize=False, add_generation_prompt=True) for one in told
        ]
    else:
        texts = [f"{pipe.system_prompt} <Prompt Start> {prompt}" for prompt in prompts]
    return [len(tokenizer(text).input_ids) for text in texts]


def streams(
    pipe: Any, entry: dict[str, Tensor], pixels: int, prompts: Sequence[str]
) -> list[tuple[slice, slice]]:
    """By row, positions of the image among the queries and of the text among the keys, as each model joins them."""
    queries, keys = entry["query"].shape[-2], entry["key"].shape[-2]
    name, found = type(pipe).__name__, []
    own = name.startswith(("Lumina2", "ZImage"))
    for count in text_counts(pipe, prompts) if own else [0] * len(prompts):
        if queries == pixels:  # cross-attention
            found.append((slice(None), slice(None)))
        elif name.startswith("StableDiffusion3"):
            found.append((slice(0, pixels), slice(pixels, keys)))
        elif name.startswith("Lumina2"):  # the image follows the row's own text
            found.append((slice(count, count + pixels), slice(0, count)))
        elif name.startswith("ZImage"):  # both padded to 32
            start = -(-pixels // 32) * 32
            found.append((slice(0, pixels), slice(start, start + count)))
        elif name.startswith("AuraFlow"):  # 8 register tokens come first
            found.append((slice(keys - pixels, keys), slice(8, keys - pixels)))
        else:
            found.append((slice(keys - pixels, keys), slice(0, keys - pixels)))
    return found


def rows_of_prompts(pipe: Any, values: Tensor, rows: int) -> Tensor:
    """Of a batch of all branches those of the prompts, which come last; in Z-Image first."""
    return values[:rows] if type(pipe).__name__ == "ZImagePipeline" else values[-rows:]
