"""Components of the pipelines of diffusion transformers, as their published folders name them. Imports no torch."""

from __future__ import annotations

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


def _layout(
    pipeline: str,
    denoiser: str | tuple[str, ...],
    towers: tuple[tuple[tuple[str, ...], tuple[str, ...], int], ...],
    decoder: str = "AutoencoderKL",
    *,
    pooled: bool = False,
    unbinned: bool = False,
    guidance: str = "classifier-free",
) -> Layout:
    """A layout whose towers of text are (classes of the tokenizer, classes of the encoder, most tokens)."""
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
        pooled=pooled,
        lengths=tuple(length for _, _, length in towers),
        fixed={"use_resolution_binning": False} if unbinned else {},
        guidance=guidance,
    )


SD3 = _layout(
    "StableDiffusion3Pipeline",
    "SD3Transformer2DModel",
    ((CLIP, CLIP_POOLED, 77), (CLIP, CLIP_POOLED, 77), (T5, ("T5EncoderModel",), 256)),
    pooled=True,
)
FLUX = _layout(
    "FluxPipeline",
    "FluxTransformer2DModel",
    ((CLIP, ("CLIPTextModel",), 77), (T5, ("T5EncoderModel",), 512)),
    pooled=True,
    guidance="distilled",
)
CHROMA = _layout("ChromaPipeline", "ChromaTransformer2DModel", ((T5, ("T5EncoderModel",), 512),))
# the published folders of PixArt name the class that diffusers replaces by its successor
_PIXART = ("PixArtTransformer2DModel", "Transformer2DModel")
PIXART_ALPHA = _layout("PixArtAlphaPipeline", _PIXART, ((T5, ("T5EncoderModel",), 120),), unbinned=True)
PIXART_SIGMA = _layout("PixArtSigmaPipeline", _PIXART, ((T5, ("T5EncoderModel",), 300),), unbinned=True)
# of instruction and prompt together the denoiser is given 300: the first, and the last 299
SANA = _layout(
    "SanaPipeline", "SanaTransformer2DModel", ((GEMMA, GEMMA_MODELS, 300),), "AutoencoderDC", unbinned=True
)
QWEN_IMAGE = _layout(
    "QwenImagePipeline",
    "QwenImageTransformer2DModel",
    ((QWEN, ("Qwen2_5_VLForConditionalGeneration",), 512),),
    "AutoencoderKLQwenImage",
    guidance="true",
)
LUMINA2 = _layout("Lumina2Pipeline", "Lumina2Transformer2DModel", ((GEMMA, GEMMA_MODELS, 256),))
Z_IMAGE = _layout("ZImagePipeline", "ZImageTransformer2DModel", ((QWEN, QWEN3_MODELS, 512),))
AURAFLOW = _layout("AuraFlowPipeline", "AuraFlowTransformer2DModel", ((LLAMA, ("UMT5EncoderModel",), 256),))

LAYOUTS = (
    SD3,
    FLUX,
    CHROMA,
    PIXART_ALPHA,
    PIXART_SIGMA,
    SANA,
    QWEN_IMAGE,
    LUMINA2,
    Z_IMAGE,
    AURAFLOW,
)
