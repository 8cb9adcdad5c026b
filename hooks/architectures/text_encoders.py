"""The sites of text encoders, which stand before denoisers of any architecture. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hooks.architectures.places import Place
from hooks.architectures.site import Site, module_at

TEXT_ENCODERS = {"text": "text_encoder", "text_2": "text_encoder_2"}
_PASSED_BY = (
    "it is read before a layer norm, and the residual stream passes by that norm: write at the layer, or at its "
    "attn or mlp"
)
_PASSED_ON = (
    "the pipeline passes it to the denoiser: write at a layer of the text encoder, or pass prompt_embeds"
)


def text_core(pipe: Any, part: str) -> str | None:
    """Path of the module with `embeddings`, `encoder.layers` and `final_layer_norm`, or None.

    It is the text encoder itself (`CLIPTextModel` of transformers 5) or its `text_model`.
    """
    encoder = getattr(pipe, part, None)
    for path, module in ((f"{part}.text_model", getattr(encoder, "text_model", None)), (part, encoder)):
        parts = ("embeddings", "encoder", "final_layer_norm")
        if all(hasattr(module, p) for p in parts) and hasattr(module.encoder, "layers"):
            return path
    return None


def prompt_tokens(pipe: Any) -> int:
    """Token positions of a prompt: what the first text encoder there is takes."""
    for part in TEXT_ENCODERS.values():
        config = getattr(getattr(pipe, part, None), "config", None)
        if config is not None and hasattr(config, "max_position_embeddings"):
            return config.max_position_embeddings
    return 77


def text_sites(pipe: Any, denoiser: str, place: Callable[[str], Place]) -> Iterator[Site]:
    """The sites of all text encoders, and what they give the denoiser, in the order in which they run.

    Parameters
    ----------
    denoiser : str
        Path of the denoiser from the pipeline.
    place : callable
        Of the architecture.
    """
    for name, part in TEXT_ENCODERS.items():
        core = text_core(pipe, part)
        if core is not None:
            yield from _encoder_sites(pipe, name, core, place)
    yield Site("text.final", denoiser, place("text.final"), read="pipeline", read_only=_PASSED_ON)


def _encoder_sites(pipe: Any, name: str, core: str, place: Callable[[str], Place]) -> Iterator[Site]:
    def site(address: str, module: str, **more: Any) -> Site:
        return Site(f"{name}.{address}", f"{core}.{module}", place(f"{name}.{address}"), **more)

    yield site("embeddings", "embeddings")
    for k, layer in enumerate(module_at(pipe, core).encoder.layers):
        address, path = f"layers.{k}", f"encoder.layers.{k}"
        attention = getattr(layer, "self_attn", None)
        if attention is not None:
            if hasattr(attention, "out_proj") and hasattr(attention, "num_heads"):
                heads, projection = int(attention.num_heads), f"{path}.self_attn.out_proj"
                yield site(f"{address}.attn.heads", projection, default=False, read="input", heads=heads)
            yield site(f"{address}.attn", f"{path}.self_attn", default=False)
        if hasattr(layer, "layer_norm2"):
            norm = f"{path}.layer_norm2"
            yield site(f"{address}.middle", norm, default=False, read="input", read_only=_PASSED_BY)
        if hasattr(layer, "mlp"):
            yield site(f"{address}.mlp", f"{path}.mlp", default=False)
        yield site(address, path)
