"""Towers of text before diffusion transformers, as published folders name them, and layouts. Imports no torch."""

from __future__ import annotations

from typing import Any

from hooks.architectures.layout import Component, Layout

# each tokenizer is a class of transformers 5; published folders name the fast class of former versions
CLIP = ("CLIPTokenizer", "CLIPTokenizerFast")
T5 = ("T5Tokenizer", "T5TokenizerFast")
GEMMA = ("GemmaTokenizer", "GemmaTokenizerFast")
QWEN = ("Qwen2Tokenizer", "Qwen2TokenizerFast")
LLAMA = ("LlamaTokenizer", "LlamaTokenizerFast", *T5)  # of AuraFlow's UMT5

CLIP_POOLED = ("CLIPTextModelWithProjection",)
GEMMA_MODELS = ("Gemma2Model", "Gemma2ForCausalLM")
QWEN3_MODELS = ("Qwen3Model", "Qwen3ForCausalLM")


def layout(
    pipeline: str,
    denoiser: str | tuple[str, ...],
    towers: tuple[tuple[tuple[str, ...], tuple[str, ...], int], ...],
    decoder: str = "AutoencoderKL",
    **more: Any,
) -> Layout:
    """A layout of the towers of text, each (classes of the tokenizer, classes of the encoder, most tokens).

    Other arguments are those of `Layout`.
    """
    suffixes = ("", *(f"_{number}" for number in range(2, len(towers) + 1)))
    classes = (denoiser,) if isinstance(denoiser, str) else denoiser
    return Layout(
        pipeline,
        tuple(
            Component(f"tokenizer{suffix}", "transformers", tokenizer)
            for suffix, (tokenizer, _, _) in zip(suffixes, towers)
        ),
        tuple(
            Component(f"text_encoder{suffix}", "transformers", encoder)
            for suffix, (_, encoder, _) in zip(suffixes, towers)
        ),
        Component("transformer", "diffusers", classes),
        Component("vae", "diffusers", (decoder,)),
        lengths=tuple(length for _, _, length in towers),
        **more,
    )
