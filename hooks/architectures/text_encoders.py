"""The text encoders of pipelines of any architecture, by family, and their sites. Imports no torch.

A family is a row of `FAMILIES`: where its embeddings, layers and final norm stand, and what lies within a layer. Sites
have the same addresses in all: `text.embeddings`, `text.layers.<k>`, and of the second and third encoder `text_2.…`,
`text_3.…`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from hooks.architectures.site import Site, has_module, module_at

TEXT_ENCODERS = {"text": "text_encoder", "text_2": "text_encoder_2", "text_3": "text_encoder_3"}
JOINED = "dit"  # in the place of an encoder's name: the text that a diffusion transformer is given
TOKENIZERS = {name: part.replace("text_encoder", "tokenizer") for name, part in TEXT_ENCODERS.items()}
_PASSED_BY = (
    "it is read before a layer norm, and the residual stream passes by that norm: write at the layer, or at its "
    "attn or mlp"
)
_PASSED_ON = (
    "the pipeline passes it to the denoiser: write at a layer of the text encoder, or pass prompt_embeds"
)


@dataclass(frozen=True)
class TextFamily:
    """Module paths in the text encoders of one family (CLIP, T5, …), relative to their core or to a layer.

    Attributes
    ----------
    cores : tuple of str
        Where the core may stand in the encoder; "" is the encoder itself.
    embeddings, layers, norm : str
        The module that gives the first hidden state; the list of layers; the final norm ("" for none).
    attention, mlp : str
        Whose outputs are added to the residual stream.
    projection : str
        The attention's output projection, which is given the heads side by side.
    middle : str
        The norm that is given the residual stream between attention and MLP.
    ends : {"eos", "last"}
        What stands for the whole text: its first end-of-text token, or its last token, where the encoder reads causally
        and a template follows the prompt.
    causal : bool
        Whether a position reads none that comes after it.
    """

    name: str
    cores: tuple[str, ...]
    embeddings: str
    layers: str
    norm: str
    attention: str
    projection: str
    middle: str
    mlp: str
    ends: str
    causal: bool = True

    def fits(self, core: Any) -> bool:
        """Return whether a module (`core`) has embeddings, layers and norm where this family has them."""
        if not all(has_module(core, path) for path in (self.embeddings, self.layers, self.norm) if path):
            return False
        layers = module_at(core, self.layers)
        return not len(layers) or has_module(layers[0], self.middle)


FAMILIES = (
    TextFamily(
        name="CLIP",
        cores=("text_model", ""),  # CLIPTextModel of transformers 5 is its own core
        embeddings="embeddings",
        layers="encoder.layers",
        norm="final_layer_norm",
        attention="self_attn",
        projection="self_attn.out_proj",
        middle="layer_norm2",
        mlp="mlp",
        ends="eos",
    ),
    TextFamily(
        name="T5",  # and UMT5
        cores=("",),
        embeddings="encoder.embed_tokens",
        layers="encoder.block",
        norm="encoder.final_layer_norm",
        attention="layer.0.SelfAttention",
        projection="layer.0.SelfAttention.o",
        middle="layer.1.layer_norm",
        mlp="layer.1.DenseReluDense",
        ends="eos",
        causal=False,
    ),
    TextFamily(
        name="BERT",  # norms after attention and MLP
        cores=("",),
        embeddings="embeddings",
        layers="encoder.layer",
        norm="",
        attention="attention.output.dense",
        projection="",
        middle="attention.output.LayerNorm",
        mlp="output.dense",
        ends="last",
        causal=False,
    ),
    TextFamily(
        name="Gemma 2",  # norms what attention and MLP give before it is added
        cores=("", "model"),
        embeddings="embed_tokens",
        layers="layers",
        norm="norm",
        attention="post_attention_layernorm",
        projection="self_attn.o_proj",
        middle="pre_feedforward_layernorm",
        mlp="post_feedforward_layernorm",
        ends="last",
    ),
    TextFamily(
        name="Qwen",  # 3 and, with its language model within, 2.5-VL
        cores=("model.language_model", "language_model", "model", ""),
        embeddings="embed_tokens",
        layers="layers",
        norm="norm",
        attention="self_attn",
        projection="self_attn.o_proj",
        middle="post_attention_layernorm",
        mlp="mlp",
        ends="last",
    ),
)


def text_core(pipe: Any, part: str) -> TextFamily | None:
    """The family of a text encoder such as "text_encoder_2", with module paths from the pipeline on.

    None if the pipeline has no such encoder, or the encoder is of no known family.
    """
    encoder = getattr(pipe, part, None)
    for family in FAMILIES if encoder is not None else ():
        for inner in family.cores:
            path = f"{part}.{inner}" if inner else part
            if (not inner or has_module(encoder, inner)) and family.fits(module_at(pipe, path)):
                names = [name for name in ("embeddings", "layers", "norm") if getattr(family, name)]
                paths = {name: f"{path}.{getattr(family, name)}" for name in names}
                return replace(family, **paths)
    return None


def text_cores(pipe: Any) -> dict[str, TextFamily]:
    """The families (`text_core`) of a pipeline's text encoders, by "text", "text_2" and "text_3", where known."""
    cores = {name: text_core(pipe, part) for name, part in TEXT_ENCODERS.items()}
    return {name: core for name, core in cores.items() if core is not None}


def text_config(encoder: Any) -> Any:
    """The configuration of a text encoder's language model: its `text_config`, or its only configuration."""
    return getattr(encoder.config, "text_config", encoder.config)


def longest_text(encoder: Any) -> int | None:
    """Largest number of tokens that a text encoder takes, from its configuration; None without a limit (T5)."""
    return getattr(text_config(encoder), "max_position_embeddings", None)


def prompt_tokens(pipe: Any) -> int:
    """Number of token positions of a prompt: the limit of the first text encoder that has one, else 77."""
    for part in TEXT_ENCODERS.values():
        encoder = getattr(pipe, part, None)
        if encoder is not None and hasattr(encoder, "config") and longest_text(encoder) is not None:
            return longest_text(encoder)
    return 77


def text_sites(pipe: Any, denoiser: str) -> Iterator[Site]:
    """Sites of a pipeline's text encoders, in the order in which they run, then `text.final` at the `denoiser`."""
    for name, core in text_cores(pipe).items():
        yield from _encoder_sites(pipe, name, core)
    yield Site("text.final", denoiser, read="pipeline", read_only=_PASSED_ON)


def _encoder_sites(pipe: Any, name: str, core: TextFamily) -> Iterator[Site]:
    """Sites of one text encoder: the embeddings, and the output and inner modules of each layer."""

    def site(address: str, path: str, **attributes: Any) -> Site:
        """Return the site of a module of this encoder."""
        return Site(f"{name}.{address}", path, **attributes)

    yield site("embeddings", core.embeddings)
    for k, layer in enumerate(module_at(pipe, core.layers)):
        address, path = f"layers.{k}", f"{core.layers}.{k}"
        if has_module(layer, core.attention):
            if has_module(layer, core.projection):
                heads, projection = _head_count(layer, core.projection), f"{path}.{core.projection}"
                yield site(f"{address}.attn.heads", projection, default=False, read="input", heads=heads)
            yield site(f"{address}.attn", f"{path}.{core.attention}", default=False)
        if has_module(layer, core.middle):
            norm = f"{path}.{core.middle}"
            yield site(f"{address}.middle", norm, default=False, read="input", read_only=_PASSED_BY)
        if has_module(layer, core.mlp):
            yield site(f"{address}.mlp", f"{path}.{core.mlp}", default=False)
        yield site(address, path)


def _head_count(layer: Any, projection: str) -> int:
    """Number of heads of a layer's attention, which is the module above the path of its output projection."""
    attention = module_at(layer, projection.rpartition(".")[0])
    for name in ("num_heads", "n_heads"):
        if hasattr(attention, name):
            return int(getattr(attention, name))
    return int(attention.config.num_attention_heads)
