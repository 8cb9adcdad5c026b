"""Tiny diffusion transformers of the real pipeline classes, with seeded random weights, made in memory.

`tiny_transformer_pipeline("sd3")` has the components of Stable Diffusion 3 at a few channels each; `KINDS` names the
others. Nothing is fetched. As in `tests.tiny`, each word of `WORDS` is one token of every tokenizer and any other
word is several. `call_options` are what a call of the pipeline needs to make an image of `size` pixels.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import diffusers
import tokenizers
import torch
from diffusers import (
    AutoencoderDC,
    AutoencoderKLFlux2,
    AutoencoderKLQwenImage,
    CogVideoXDDIMScheduler,
    DDPMScheduler,
    DPMSolverMultistepScheduler,
    FlowMatchEulerDiscreteScheduler,
    SCMScheduler,
)
from tokenizers.processors import TemplateProcessing
from transformers import (
    BertConfig,
    BertModel,
    BertTokenizer,
    CLIPTextModel,
    CLIPTextModelWithProjection,
    Gemma2Config,
    Gemma2Model,
    GemmaTokenizer,
    GlmConfig,
    GlmModel,
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2Tokenizer,
    Qwen3Config,
    Qwen3Model,
    Qwen3VLConfig,
    Qwen3VLModel,
    T5Config,
    T5EncoderModel,
    T5Tokenizer,
    UMT5Config,
    UMT5EncoderModel,
)

from tests.tiny import (
    WORDS,
    _byte_characters,
    _enliven,
    _merges,
    _numbered,
    _text_config,
    _vae,
    tiny_tokenizer,
)

# Lumina2's system prompt, which would be longer than the prompts by far if its words were spelled in characters.
SYSTEM_WORDS = """
You are assistant designed generate superior images degree image-text alignment based textual prompts or user
prompts. <Prompt Start>
""".split()  # noqa: SIM905  (a paragraph is easier to keep than a list)

# Sana's instruction before each prompt, for the same reason.
INSTRUCTION = (
    inspect.signature(diffusers.SanaPipeline.__call__).parameters["complex_human_instruction"].default
)
INSTRUCTION_WORDS = list(dict.fromkeys(re.findall(r"[A-Za-z]+", " ".join(INSTRUCTION))))

# Qwen-Image drops the first 34 tokens of its template: as many as these words give when each is one token.
TEMPLATE_WORDS = """
Describe image detailing color shape size texture quantity text spatial relationships of objects background system
user assistant
""".split()  # noqa: SIM905  (a paragraph is easier to keep than a list)

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

PRINTABLE = [chr(code) for code in range(33, 127)]


def t5_tokenizer(length: int = 512) -> T5Tokenizer:
    """A `T5Tokenizer` with a piece for each word, with and without a space before it, and for each ASCII character."""
    words = [("▁" + word, -6.0) for word in WORDS] + [(word, -7.0) for word in WORDS if len(word) > 1]
    known = {piece for piece, _ in words}
    characters = [(piece, -12.0) for piece in ["▁", *PRINTABLE] if piece not in known]
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *words, *characters]
    return T5Tokenizer(vocab=pieces, extra_ids=0, model_max_length=length)


@functools.cache
def _gemma_vocabulary() -> tuple[dict[str, int], list[tuple[str, str]]]:
    merges = _merges([["▁", *word] for word in [*WORDS, *SYSTEM_WORDS, *INSTRUCTION_WORDS]])
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
    octets = [f"<0x{octet:02X}>" for octet in range(256)]
    return _numbered([*special, *octets, "▁", *PRINTABLE, *(a + b for a, b in merges)]), merges


def gemma_tokenizer() -> GemmaTokenizer:
    """A `GemmaTokenizer` whose words have a space before them; others fall back to characters and bytes."""
    vocab, merges = _gemma_vocabulary()
    return GemmaTokenizer(vocab=dict(vocab), merges=list(merges), model_max_length=1024)


@functools.cache
def _qwen_vocabulary() -> tuple[dict[str, int], list[tuple[str, str]]]:
    words = [[*prefix, *word] for word in [*WORDS, *TEMPLATE_WORDS] for prefix in ("", "Ġ")]
    merges = _merges(words)
    return _numbered([*_byte_characters(), *(a + b for a, b in merges), "<|endoftext|>"]), merges


def qwen_tokenizer() -> Qwen2Tokenizer:
    """A byte-level `Qwen2Tokenizer` with Qwen's marks of a conversation and its chat template."""
    vocab, merges = _qwen_vocabulary()
    return Qwen2Tokenizer(
        vocab=dict(vocab),
        merges=list(merges),
        eos_token="<|im_end|>",
        extra_special_tokens=["<|im_start|>", "<|im_end|>"],
        chat_template=CHAT_TEMPLATE,
        model_max_length=2048,
    )


def _clip(width: int, layers: int, projection: bool = True) -> tuple[Any, Any]:
    """Tokenizer and encoder of CLIP's text, of `width` channels; the pooled vector has as many."""
    tokenizer = tiny_tokenizer(77)
    config = _text_config(tokenizer, width, layers, 2, hidden_act="quick_gelu", projection_dim=width)
    return tokenizer, (CLIPTextModelWithProjection if projection else CLIPTextModel)(config)


def _t5(config: Any = T5Config, model: Any = T5EncoderModel, **over: Any) -> tuple[Any, Any]:
    tokenizer = t5_tokenizer()
    settings: dict[str, Any] = dict(
        vocab_size=len(tokenizer),
        d_model=48,
        d_kv=12,
        d_ff=64,
        num_layers=3,
        num_heads=4,
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=False,
    )
    return tokenizer, model(config(**(settings | over)))


def _decoder_settings(tokenizer: Any) -> dict[str, Any]:
    return dict(
        vocab_size=len(tokenizer),
        hidden_size=48,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=12,
        max_position_embeddings=2048,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )


def _gemma() -> tuple[Any, Any]:
    tokenizer = gemma_tokenizer()
    settings = _decoder_settings(tokenizer)
    return tokenizer, Gemma2Model(Gemma2Config(**settings, sliding_window=512))


def _qwen3(over: Mapping[str, Any] = {}) -> tuple[Any, Any]:
    tokenizer = qwen_tokenizer()
    return tokenizer, Qwen3Model(Qwen3Config(**{**_decoder_settings(tokenizer), **over}))


def glm_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer with GLM's marks before each text, which pads before these."""
    tokenizer = tokenizers.Tokenizer.from_str(qwen_tokenizer().backend_tokenizer.to_str())
    marks = ["[gMASK]", "<sop>", "<|endoftext|>"]
    tokenizer.add_special_tokens(marks)
    pairs = [(mark, tokenizer.token_to_id(mark)) for mark in marks[:2]]
    tokenizer.post_processor = TemplateProcessing(single="[gMASK] <sop> $A", special_tokens=pairs)
    settings = dict(pad_token=marks[2], eos_token=marks[2], padding_side="left", model_max_length=128000)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **settings)


def _glm() -> tuple[Any, Any]:
    tokenizer = glm_tokenizer()
    return tokenizer, GlmModel(GlmConfig(**_decoder_settings(tokenizer)))


def _bert() -> tuple[Any, Any]:
    pieces = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *WORDS,
        *PRINTABLE,
        *(f"##{one}" for one in PRINTABLE),
    ]
    tokenizer = BertTokenizer(vocab=_numbered(pieces), model_max_length=77)
    settings = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4)
    return tokenizer, BertModel(BertConfig(vocab_size=len(tokenizer), **settings))


def _qwen_vl() -> tuple[Any, Any]:
    tokenizer = qwen_tokenizer()
    text = _decoder_settings(tokenizer)
    text["rope_scaling"] = {"type": "mrope", "mrope_section": [2, 2, 2], "rope_type": "default"}
    vision = dict(
        depth=1,
        hidden_size=16,
        intermediate_size=16,
        num_heads=2,
        out_hidden_size=48,
        patch_size=14,
        window_size=112,
        fullatt_block_indexes=[0],
    )
    marks = {f"{name}_token_id": 0 for name in ("image", "video", "vision_start", "vision_end")}
    config = Qwen2_5_VLConfig(text_config=text, vision_config=vision, **marks)
    return tokenizer, Qwen2_5_VLForConditionalGeneration(config)


def _qwen3_vl() -> tuple[Any, Any]:
    tokenizer = qwen_tokenizer()
    text = _decoder_settings(tokenizer) | NARROW | dict(num_hidden_layers=35)  # the pipeline reads the 35th
    text["rope_scaling"] = {"mrope_section": [2, 1, 1], "rope_type": "default"}
    vision = dict(
        depth=1,
        hidden_size=16,
        intermediate_size=16,
        num_heads=2,
        out_hidden_size=16,
        deepstack_visual_indexes=[0],
    )
    marks = {f"{name}_token_id": 0 for name in ("image", "video", "vision_start", "vision_end")}
    return tokenizer, Qwen3VLModel(Qwen3VLConfig(text_config=text, vision_config=vision, **marks))


def _shifted_vae(levels: int = 2, scaling: float = 0.3611, shift: float = 0.1159, **over: Any) -> Any:
    """As those of SD3 and Flux: a shift, no convolutions around the latents."""
    settings = dict(use_quant_conv=False, use_post_quant_conv=False, sample_size=32)
    return _vae(levels, scaling_factor=scaling, shift_factor=shift, **settings, **over)


def _flux2_vae() -> AutoencoderKLFlux2:
    """Latents are normalized, in patches of 2 x 2, by running statistics; downsampled by 2, the published one by 8."""
    blocks = {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}
    vae = AutoencoderKLFlux2(
        **blocks,
        block_out_channels=(8, 16),
        layers_per_block=1,
        latent_channels=4,
        norm_num_groups=4,
        sample_size=32,
    )
    vae.bn.running_mean.uniform_(-0.5, 0.5)
    vae.bn.running_var.uniform_(0.5, 2.0)
    return vae


def _sana_vae() -> AutoencoderDC:
    """Downsamples by 4; the published one by 32."""
    blocks = ("ResBlock", "ResBlock", "EfficientViTBlock")
    return AutoencoderDC(
        latent_channels=4,
        attention_head_dim=4,
        encoder_block_types=blocks,
        decoder_block_types=blocks,
        encoder_block_out_channels=(8, 8, 16),
        decoder_block_out_channels=(8, 8, 16),
        encoder_layers_per_block=(1, 1, 1),
        decoder_layers_per_block=(1, 1, 1),
        encoder_qkv_multiscales=((), (), (5,)),
        decoder_qkv_multiscales=((), (), (5,)),
        upsample_block_type="interpolate",
        downsample_block_type="Conv",
        scaling_factor=0.41407,
    )


def _qwen_vae() -> AutoencoderKLQwenImage:
    """Latents of five dimensions, downsampled by 4; the published one by 8."""
    return AutoencoderKLQwenImage(
        base_dim=8,
        z_dim=4,
        dim_mult=[1, 2, 2],
        num_res_blocks=1,
        temperal_downsample=[False, True],
        latents_mean=[-0.7571, -0.7089, 0.4134, 0.1075],
        latents_std=[2.8184, 1.4541, 1.3275, 2.6558],
    )


SD3: dict[str, Any] = dict(
    sample_size=16,
    patch_size=2,
    in_channels=4,
    out_channels=4,
    num_layers=3,
    attention_head_dim=8,
    num_attention_heads=4,
    joint_attention_dim=48,
    caption_projection_dim=32,
    pooled_projection_dim=16 + 24,
    pos_embed_max_size=24,
)
JOINT: dict[str, Any] = dict(
    in_channels=16,
    attention_head_dim=16,
    num_attention_heads=2,
    joint_attention_dim=48,
    axes_dims_rope=(4, 6, 6),
)
FLUX = JOINT | dict(num_layers=2, num_single_layers=3)
FLUX2 = FLUX | dict(axes_dims_rope=(4, 4, 4, 4), mlp_ratio=2.0, guidance_embeds=False)
# of a text encoder of many layers
NARROW = dict(hidden_size=16, intermediate_size=16, num_attention_heads=2, num_key_value_heads=2, head_dim=8)
KREA2: dict[str, Any] = dict(
    in_channels=16,
    num_layers=3,
    attention_head_dim=16,
    num_attention_heads=2,
    num_key_value_heads=1,
    intermediate_size=32,
    timestep_embed_dim=16,
    text_hidden_dim=16,
    num_text_layers=12,
    text_num_attention_heads=2,
    text_num_key_value_heads=2,
    text_intermediate_size=16,
    num_layerwise_text_blocks=1,
    num_refiner_text_blocks=1,
    axes_dims_rope=(4, 6, 6),
)
CHROMA = FLUX | dict(approximator_num_channels=8, approximator_hidden_dim=16, approximator_layers=1)
PIXART: dict[str, Any] = dict(
    sample_size=16,
    num_layers=3,
    attention_head_dim=8,
    num_attention_heads=4,
    in_channels=4,
    out_channels=8,
    cross_attention_dim=32,
    caption_channels=48,
    norm_num_groups=4,
    use_additional_conditions=False,
)
SANA: dict[str, Any] = dict(
    in_channels=4,
    out_channels=4,
    num_attention_heads=4,
    attention_head_dim=8,
    num_layers=3,
    num_cross_attention_heads=2,
    cross_attention_head_dim=16,
    cross_attention_dim=32,
    caption_channels=48,
    sample_size=32,
)
COGVIEW: dict[str, Any] = dict(
    sample_size=16,
    in_channels=4,
    out_channels=4,
    num_layers=3,
    attention_head_dim=12,
    num_attention_heads=4,
    text_embed_dim=48,
    time_embed_dim=16,
    condition_dim=4,
)
LUMINA2: dict[str, Any] = dict(
    sample_size=16,
    in_channels=4,
    hidden_size=48,
    num_layers=3,
    num_refiner_layers=1,
    num_attention_heads=4,
    num_kv_heads=2,
    multiple_of=16,
    axes_dim_rope=(4, 4, 4),
    axes_lens=(300, 64, 64),
    cap_feat_dim=48,
)
Z_IMAGE: dict[str, Any] = dict(
    in_channels=4,
    dim=48,
    n_layers=3,
    n_refiner_layers=1,
    n_heads=4,
    n_kv_heads=4,
    cap_feat_dim=48,
    axes_dims=[4, 4, 4],
    axes_lens=[1024, 64, 64],
)
AURAFLOW: dict[str, Any] = dict(
    sample_size=16,
    patch_size=2,
    in_channels=4,
    out_channels=4,
    num_mmdit_layers=2,
    num_single_dit_layers=2,
    attention_head_dim=8,
    num_attention_heads=4,
    joint_attention_dim=48,
    caption_projection_dim=32,
    pos_embed_max_size=256,
)


def _flow(shift: float, **settings: Any) -> Callable[[], Any]:
    return functools.partial(FlowMatchEulerDiscreteScheduler, shift=shift, **settings)


def _diffusion(**settings: Any) -> Callable[[], Any]:
    return functools.partial(DPMSolverMultistepScheduler, **settings)


@dataclass(frozen=True)
class Kind:
    """How one layout is made, and what a call of it takes beside the prompts."""

    pipeline: str
    transformer: str
    settings: dict[str, Any]
    towers: Callable[[], list[tuple[Any, Any]]]
    scheduler: Callable[[], Any]
    vae: Callable[[], Any] = _shifted_vae
    call: dict[str, Any] = field(default_factory=dict)
    size: int = 32


# Guidance: two branches where the model has them, so that tests meet both.
NEGATIVE = {"negative_prompt": "", "true_cfg_scale": 3.0}
UNBINNED = {"use_resolution_binning": False}
FLUX_NOISE = dict(base_shift=0.5, max_shift=1.15, base_image_seq_len=256, max_image_seq_len=4096)
QWEN_NOISE: dict[str, Any] = dict(
    shift_terminal=0.02, base_shift=0.5, max_shift=0.9, max_image_seq_len=8192, time_shift_type="exponential"
)
LINEAR = dict(beta_start=0.0001, beta_end=0.02, beta_schedule="linear")
ROWS = {
    "sd3": Kind(
        "StableDiffusion3Pipeline",
        "SD3Transformer2DModel",
        SD3,
        lambda: [_clip(16, 3), _clip(24, 4), _t5()],
        _flow(3.0),
        functools.partial(_shifted_vae, scaling=1.5305, shift=0.0609),
    ),
    "flux-dev": Kind(
        "FluxPipeline",
        "FluxTransformer2DModel",
        FLUX | dict(pooled_projection_dim=24, guidance_embeds=True),
        lambda: [_clip(24, 3, projection=False), _t5()],
        _flow(3.0, use_dynamic_shifting=True, **FLUX_NOISE),
    ),
    "flux2-klein": Kind(
        "Flux2KleinPipeline",
        "Flux2Transformer2DModel",
        FLUX2 | dict(joint_attention_dim=3 * 16),
        lambda: [_qwen3(NARROW | dict(num_hidden_layers=27))],  # the pipeline reads the 27th
        _flow(3.0, use_dynamic_shifting=True),
        _flux2_vae,
    ),
    "longcat-image": Kind(
        "LongCatImagePipeline",
        "LongCatImageTransformer2DModel",
        FLUX | dict(in_channels=64),
        lambda: [_qwen_vl()],
        _flow(3.0, use_dynamic_shifting=True),
        lambda: _shifted_vae(latent_channels=16),
        {"enable_prompt_rewrite": False, "negative_prompt": ""},
    ),
    "krea2": Kind(
        "Krea2Pipeline",
        "Krea2Transformer2DModel",
        KREA2,
        lambda: [_qwen3_vl()],
        _flow(3.0, use_dynamic_shifting=True),
        _qwen_vae,
        size=64,
    ),
    "pixart-alpha": Kind(
        "PixArtAlphaPipeline",
        "PixArtTransformer2DModel",
        PIXART,
        lambda: [_t5()],
        _diffusion(**LINEAR),
        lambda: _vae(2, scaling_factor=0.18215, sample_size=32),
        UNBINNED,
    ),
    "sana": Kind(
        "SanaPipeline",
        "SanaTransformer2DModel",
        SANA,
        lambda: [_gemma()],
        _diffusion(prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0),
        _sana_vae,
        UNBINNED,
        64,
    ),
    "qwen-image": Kind(
        "QwenImagePipeline",
        "QwenImageTransformer2DModel",
        JOINT | dict(out_channels=4, num_layers=3),
        lambda: [_qwen_vl()],
        _flow(1.0, use_dynamic_shifting=True, **QWEN_NOISE),
        _qwen_vae,
        NEGATIVE,
        64,
    ),
    "lumina2": Kind(
        "Lumina2Pipeline",
        "Lumina2Transformer2DModel",
        LUMINA2,
        lambda: [_gemma()],
        _flow(6.0),
        lambda: _shifted_vae(levels=4),
        size=128,
    ),
    "z-image": Kind("ZImagePipeline", "ZImageTransformer2DModel", Z_IMAGE, lambda: [_qwen3()], _flow(3.0)),
    "auraflow": Kind(
        "AuraFlowPipeline",
        "AuraFlowTransformer2DModel",
        AURAFLOW,
        lambda: [_t5(UMT5Config, UMT5EncoderModel)],
        _flow(1.73),
        lambda: _vae(2, scaling_factor=0.13025, sample_size=32),
    ),
    "chroma": Kind("ChromaPipeline", "ChromaTransformer2DModel", CHROMA, lambda: [_t5()], _flow(1.0)),
    "ovis-image": Kind(
        "OvisImagePipeline",
        "OvisImageTransformer2DModel",
        FLUX | dict(out_channels=16),
        lambda: [_qwen3()],
        _flow(3.0, use_dynamic_shifting=True),
        call={"guidance_scale": 8.0},
    ),
}
ROWS["cogview3"] = Kind(
    "CogView3PlusPipeline",
    "CogView3PlusTransformer2DModel",
    COGVIEW | dict(pos_embed_max_size=16),
    lambda: [_t5()],
    functools.partial(
        CogVideoXDDIMScheduler,
        prediction_type="v_prediction",
        rescale_betas_zero_snr=True,
        snr_shift_scale=1.0,
    ),
    lambda: _vae(2, scaling_factor=0.18215, sample_size=32),
)
ROWS["cogview4"] = Kind(
    "CogView4Pipeline",
    "CogView4Transformer2DModel",
    COGVIEW,
    lambda: [_glm()],
    _flow(1.0, use_dynamic_shifting=True, base_shift=0.25, max_shift=0.75, base_image_seq_len=256),
    lambda: _vae(2, scaling_factor=1.0, shift_factor=0.0, sample_size=32),
)
ROWS["hunyuan-dit"] = Kind(
    "HunyuanDiTPipeline",
    "HunyuanDiT2DModel",
    dict(
        sample_size=16,
        patch_size=2,
        in_channels=4,
        num_layers=4,
        num_attention_heads=4,
        attention_head_dim=8,
        hidden_size=32,
        cross_attention_dim=32,
        cross_attention_dim_t5=48,
        pooled_projection_dim=16,
    ),
    lambda: [_bert(), _t5()],
    functools.partial(DDPMScheduler, prediction_type="v_prediction", steps_offset=1),
    lambda: _vae(4, scaling_factor=0.13025, sample_size=32),
    UNBINNED,
    128,
)
ROWS["sana-sprint"] = replace(
    ROWS["sana"],
    pipeline="SanaSprintPipeline",
    settings=SANA | dict(guidance_embeds=True, qk_norm="rms_norm_across_heads"),
    scheduler=SCMScheduler,
)
ROWS["sd35"] = replace(ROWS["sd3"], settings=SD3 | dict(dual_attention_layers=(0, 1), qk_norm="rms_norm"))
ROWS["flux-schnell"] = replace(
    ROWS["flux-dev"],
    settings=FLUX | dict(pooled_projection_dim=24, guidance_embeds=False),
    scheduler=_flow(1.0, **FLUX_NOISE),
)
ROWS["pixart-sigma"] = replace(
    ROWS["pixart-alpha"],
    pipeline="PixArtSigmaPipeline",
    vae=lambda: _vae(2, scaling_factor=0.13025, sample_size=32),
)
KINDS = tuple(ROWS)


def call_options(kind: str) -> dict[str, Any]:
    """Keyword arguments beside prompts, generator and steps: height, width, and two branches where the model has them.

    Latents are 4x16x16 in all.
    """
    row = ROWS[kind]
    return {"height": row.size, "width": row.size, **row.call}


def named_towers(towers: list[tuple[Any, Any]]) -> dict[str, Any]:
    """Tokenizers and text encoders by the names that pipelines have for them."""
    components = {}
    for number, (tokenizer, encoder) in enumerate(towers, 1):
        suffix = f"_{number}" if number > 1 else ""
        components |= {f"tokenizer{suffix}": tokenizer, f"text_encoder{suffix}": encoder}
    return components


def tiny_transformer_pipeline(kind: str, *, seed: int = 0, **transformer: Any) -> Any:
    """A diffusers pipeline of the kind, with seeded random weights, on the CPU; `transformer` goes over its settings.

    The same seed gives the same weights; the global generator is left as it was. The progress bar is off.
    """
    row = ROWS[kind]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        towers = row.towers()
        denoiser = getattr(diffusers, row.transformer)(**(row.settings | transformer))
        components: dict[str, Any] = dict(transformer=denoiser, vae=row.vae(), scheduler=row.scheduler())
    components |= named_towers(towers)
    kind_class = getattr(diffusers, row.pipeline)
    parts = inspect.signature(kind_class.__init__).parameters.items()
    absent = {name: None for name, part in parts if part.default is part.empty and name != "self"}
    models = [part for part in components.values() if isinstance(part, torch.nn.Module)]
    _enliven(*models, seed=seed)
    for model in models:
        model.eval()
    pipe = kind_class(**{**absent, **components})
    pipe.set_progress_bar_config(disable=True)
    return pipe
