"""Tiny pipelines of the real classes with seeded random weights: what every test draws with.

`tiny_pipeline("toy")` has the layout of the bundled toyworld (64 px, latents 4x16x16); `"sd1"`, `"sd2"` and
`"sdxl"` have the architecture of their namesakes at a few channels a level (32 px, latents 4x16x16), `"lcm"` that of
latent consistency models.
Nothing is fetched: the vocabulary is trained here, on `WORDS`, by byte-pair encoding as CLIP's was, so a
word of the list is one token and any other text is several tokens, down to single bytes; no text fails.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import torch
from diffusers import (
    AutoencoderKL,
    DDIMScheduler,
    LatentConsistencyModelPipeline,
    LCMScheduler,
    PNDMScheduler,
    StableDiffusionPipeline,
    StableDiffusionXLPipeline,
    UNet2DConditionModel,
)
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection, CLIPTokenizer

KINDS = ("toy", "sd1", "sd2", "lcm", "sdxl")

WORDS = """
a an and at beside by field for from front garden gym happy he her him his holding home in is near of office
on park person people woman women man men individual human adult feminine masculine neutral nurse doctor
teacher engineer chef female male the kitchen library photo picture plays playing reading riding room she
sitting sky standing street sun that their they this to tree umbrella guitar book ball dog cat cup hat tie
dress suit wearing who with working beach bicycle bag blue red green black white chair table car house phone
laptop shirt skirt one two three
""".split()  # noqa: SIM905  (a paragraph is easier to keep than a list)

START, END = "<|startoftext|>", "<|endoftext|>"


def _byte_characters() -> list[str]:
    """The 256 printable stand-ins of GPT-2's byte-level encoding, in order of the byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    table = {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(others)}
    return [table[b] for b in range(256)]


def _merges(spelled: list[list[str]]) -> list[tuple[str, str]]:
    """Merges of byte-pair encoding trained until each of the spelled words is one symbol."""
    spelled = [list(word) for word in spelled]
    merges = []
    while True:
        counts: dict[tuple[str, str], int] = {}
        for word in spelled:
            for pair in itertools.pairwise(word):
                counts[pair] = counts.get(pair, 0) + 1
        if not counts:
            return merges
        best = max(counts, key=lambda pair: (counts[pair], pair))
        merges.append(best)
        for word in spelled:
            i = 0
            while i < len(word) - 1:
                if (word[i], word[i + 1]) == best:
                    word[i : i + 2] = [best[0] + best[1]]
                i += 1


def _numbered(symbols: list[str]) -> dict[str, int]:
    return {symbol: index for index, symbol in enumerate(dict.fromkeys(symbols))}


@functools.cache
def vocabulary() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Vocabulary and merges of byte-pair encoding trained on `WORDS` until each word is one token."""
    characters = _byte_characters()
    merges = _merges([[*word[:-1], word[-1] + "</w>"] for word in WORDS])
    ends = [character + "</w>" for character in characters]
    return _numbered([*characters, *ends, *(a + b for a, b in merges), START, END]), merges


def tiny_tokenizer(length: int = 77, pad_token: str = END) -> CLIPTokenizer:
    """A `CLIPTokenizer` over `vocabulary()`; `length`, `model_max_length`, counts start and end of text."""
    vocab, merges = vocabulary()
    return CLIPTokenizer(vocab=dict(vocab), merges=list(merges), model_max_length=length, pad_token=pad_token)


def _text_config(
    tokenizer: CLIPTokenizer, width: int, layers: int, heads: int, **more: Any
) -> CLIPTextConfig:
    settings: dict[str, Any] = dict(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        max_position_embeddings=tokenizer.model_max_length,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return CLIPTextConfig(**(settings | more))


def _vae(levels: int, **more: Any) -> AutoencoderKL:
    settings: dict[str, Any] = dict(
        block_out_channels=(8, 16, 16, 16)[:levels],
        down_block_types=("DownEncoderBlock2D",) * levels,
        up_block_types=("UpDecoderBlock2D",) * levels,
        latent_channels=4,
        layers_per_block=1,
        norm_num_groups=4,
        sample_size=64,
    )
    return AutoencoderKL(**(settings | more))


def _noise_schedule(**more: Any) -> dict[str, Any]:
    return dict(
        beta_start=0.00085,
        beta_end=0.012,
        beta_schedule="scaled_linear",
        num_train_timesteps=1000,
        steps_offset=1,
        clip_sample=False,
        set_alpha_to_one=False,
        **more,
    )


def _enliven(*modules: torch.nn.Module, seed: int) -> None:
    """Give every weight a seeded value wide enough that prompts and seeds visibly alter the image.

    The initial scale of transformers' classes (0.02) makes an untrained text encoder nearly deaf to words.
    """
    generator = torch.Generator().manual_seed(seed)
    for module in modules:
        for parameter in module.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            with torch.no_grad():
                if parameter.ndim > 1:
                    fan_in = parameter[0].numel()
                    parameter.copy_(noise / fan_in**0.5)
                else:
                    parameter.add_(0.02 * noise)


def _latent_diffusion(
    kind: str, prediction_type: str, unet: dict[str, Any], vae: dict[str, Any]
) -> dict[str, Any]:
    """Components of the three kinds with one text encoder."""
    length, width, layers = {"toy": (32, 32, 4), "sd1": (77, 24, 3), "sd2": (77, 32, 3), "lcm": (77, 24, 3)}[
        kind
    ]
    tokenizer = tiny_tokenizer(length, pad_token="!" if kind == "sd2" else END)
    act = "gelu" if kind == "sd2" else "quick_gelu"
    text_encoder = CLIPTextModel(_text_config(tokenizer, width, layers, 4, hidden_act=act))
    channels = {"toy": (16, 32, 32), "sd1": (8, 16, 16, 16), "sd2": (8, 16, 16), "lcm": (8, 16, 16)}[kind]
    levels = len(channels)
    cross = 2 if kind == "toy" else levels - 1  # the deepest level has no attention, as in the originals
    settings: dict[str, Any] = dict(
        sample_size=16,
        in_channels=4,
        out_channels=4,
        block_out_channels=channels,
        down_block_types=("CrossAttnDownBlock2D",) * cross + ("DownBlock2D",) * (levels - cross),
        up_block_types=("UpBlock2D",) * (levels - cross) + ("CrossAttnUpBlock2D",) * cross,
        layers_per_block=2 if kind == "sd1" else 1,
        cross_attention_dim=width,
        attention_head_dim={"toy": 2, "sd1": 2, "sd2": tuple(c // 4 for c in channels), "lcm": 2}[kind],
        norm_num_groups=4,
        use_linear_projection=kind == "sd2",
        time_cond_proj_dim=8 if kind == "lcm" else None,
    )
    schedule = _noise_schedule(prediction_type=prediction_type)
    return dict(
        tokenizer=tokenizer,
        text_encoder=text_encoder,
        unet=UNet2DConditionModel(**(settings | unet)),
        vae=_vae(**({"levels": 3 if kind == "toy" else 2} | vae)),
        scheduler={
            "sd1": lambda: PNDMScheduler(skip_prk_steps=True, **_without(schedule, "clip_sample")),
            "lcm": lambda: LCMScheduler(**schedule),
        }.get(kind, lambda: DDIMScheduler(**schedule))(),
    )


def _without(mapping: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if key != name}


def _latent_diffusion_xl(prediction_type: str, unet: dict[str, Any], vae: dict[str, Any]) -> dict[str, Any]:
    first, second = tiny_tokenizer(77), tiny_tokenizer(77, pad_token="!")
    text_encoder = CLIPTextModel(_text_config(first, 16, 3, 2, hidden_act="quick_gelu"))
    text_encoder_2 = CLIPTextModelWithProjection(
        _text_config(second, 24, 4, 2, hidden_act="gelu", projection_dim=24)
    )
    settings: dict[str, Any] = dict(
        sample_size=16,
        in_channels=4,
        out_channels=4,
        block_out_channels=(8, 16, 16),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        layers_per_block=1,
        cross_attention_dim=40,
        attention_head_dim=(2, 4, 4),
        transformer_layers_per_block=(1, 2, 3),
        norm_num_groups=4,
        use_linear_projection=True,
        addition_embed_type="text_time",
        addition_time_embed_dim=8,
        projection_class_embeddings_input_dim=24 + 6 * 8,
    )
    return dict(
        tokenizer=first,
        tokenizer_2=second,
        text_encoder=text_encoder,
        text_encoder_2=text_encoder_2,
        unet=UNet2DConditionModel(**(settings | unet)),
        vae=_vae(**({"levels": 2, "scaling_factor": 0.13025} | vae)),
        scheduler=DDIMScheduler(**_noise_schedule(prediction_type=prediction_type)),
    )


def tiny_components(
    kind: str = "toy",
    *,
    seed: int = 0,
    prediction_type: str | None = None,
    unet: dict[str, Any] | None = None,
    vae: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The components `tiny_pipeline` puts together; see there."""
    if kind not in KINDS:
        raise ValueError(f"kind: expected one of {', '.join(KINDS)}, but got {kind!r}")
    prediction_type = prediction_type or ("v_prediction" if kind in ("toy", "sd2") else "epsilon")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if kind == "sdxl":
            components = _latent_diffusion_xl(prediction_type, unet or {}, vae or {})
        else:
            components = _latent_diffusion(kind, prediction_type, unet or {}, vae or {})
    models = [
        components[name] for name in ("text_encoder", "text_encoder_2", "unet", "vae") if name in components
    ]
    _enliven(*models, seed=seed)
    for model in models:
        model.eval()
    return components


def tiny_pipeline(
    kind: str = "toy",
    *,
    seed: int = 0,
    prediction_type: str | None = None,
    scheduler: Any = None,
    unet: dict[str, Any] | None = None,
    vae: dict[str, Any] | None = None,
    pipeline_class: type | None = None,
    **components: Any,
) -> Any:
    """A diffusers pipeline of real classes, tiny, with seeded random weights, on the CPU.

    "toy": 64 px, three levels, 32 text positions, DDIM, v_prediction. "sd1": 32 px, four levels, convolutional
    projections, PNDM, epsilon. "sd2": 32 px, three levels, linear projections, DDIM, v_prediction. "lcm": 32 px, three
    levels, the scale of guidance as an input, LCM's scheduler. "sdxl": 32 px, two text encoders, up to three
    transformer blocks a layer, DDIM, epsilon. Latents are 4x16x16 in all. The same seed gives the same weights; the
    global generator is left as it was. `scheduler` is a class, built from the kind's scheduler's configuration, or a
    ready one; `unet` and `vae` are settings put over the kind's own; other keywords are ready components.
    """
    parts = tiny_components(kind, seed=seed, prediction_type=prediction_type, unet=unet, vae=vae)
    if isinstance(scheduler, type):
        parts["scheduler"] = scheduler.from_config(parts["scheduler"].config)
    elif scheduler is not None:
        parts["scheduler"] = scheduler
    if kind == "sdxl":
        pipeline_class = pipeline_class or StableDiffusionXLPipeline
        parts = {"add_watermarker": False, **parts, **components}
    else:
        default = LatentConsistencyModelPipeline if kind == "lcm" else StableDiffusionPipeline
        pipeline_class = pipeline_class or default
        parts = {
            "safety_checker": None,
            "feature_extractor": None,
            "requires_safety_checker": False,
            **parts,
            **components,
        }
    pipe = pipeline_class(**parts)
    pipe.set_progress_bar_config(disable=True)
    return pipe
