"""The denoiser: a U-Net with cross-attention at 16 × 16 and 8 × 8, trained to predict v on frozen latents and text."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from diffusers import AutoencoderKL, DDIMScheduler, UNet2DConditionModel
from diffusers.models.attention_processor import AttnProcessor
from transformers import CLIPTextModel, CLIPTokenizer

from lab.train.base.data import Drawings
from lab.train.base.loop import CPU_HAS_BFLOAT16, Budget, Log, batches, mixed_precision, train_loop
from lab.train.base.tokenizer import encode
from lab.train.base.vae import encode_latents
from lab.train.stages import Options
from probes.models.pretrained import from_folder

CONFIG = {
    "sample_size": 16,
    "in_channels": 4,
    "out_channels": 4,
    "block_out_channels": (48, 96, 96),
    "layers_per_block": 1,
    "down_block_types": ("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
    "cross_attention_dim": 96,
    "attention_head_dim": 4,  # diffusers' name for the number of heads
    "norm_num_groups": 8,
}
# Training must end, and drawing begin, in noise alone (Lin et al. 2024, "Common diffusion noise schedules and sample
# steps are flawed"): with a trace of the image left at the last timestep, and drawing begun below it, an office was
# drawn in 0.62 of 72 images where 0.35 was planted.
SCHEDULER = {
    "num_train_timesteps": 1000,
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "prediction_type": "v_prediction",
    "clip_sample": False,
    "set_alpha_to_one": False,
    "rescale_betas_zero_snr": True,
    "timestep_spacing": "trailing",
}


def new_unet(seed: int = 0) -> UNet2DConditionModel:
    """An untrained denoiser."""
    torch.manual_seed(seed)
    return UNet2DConditionModel(**CONFIG)


@contextmanager
def quick_attention(unet: UNet2DConditionModel, device: str) -> Iterator[None]:
    """Train with the attention that is quick on a device; the processors are put back at the end.

    On a CPU the fused attention's backward pass in bfloat16 takes 40 % of a step.
    """
    usual = unet.attn_processors
    if device == "cpu" and CPU_HAS_BFLOAT16:
        unet.set_attn_processor(AttnProcessor())
    try:
        yield
    finally:
        unet.set_attn_processor(usual)


def spread_times(order: torch.Tensor, power: float, generator: torch.Generator) -> torch.Tensor:
    """Timesteps 1000 u ** power with u even on [0, 1), stratified, in an order: a permutation of their numbers."""
    strata = (order + torch.rand(len(order), generator=generator)) / len(order)
    return (1000 * strata**power).long().clamp(0, 999)


def noised(
    clean: torch.Tensor, power: float, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Noised latents, float16, and their timesteps (:func:`spread_times`), in an order at random."""
    times = spread_times(torch.randperm(len(clean), generator=generator), power, generator)
    noise = torch.randn(clean.shape, generator=generator)
    return DDIMScheduler(**SCHEDULER).add_noise(clean, noise, times).half(), times


def velocity_loss(
    unet: UNet2DConditionModel,
    latents: torch.Tensor,
    states: torch.Tensor,
    zones: torch.Tensor,
    generator: torch.Generator,
    zone_weight: float,
    time_power: float,
) -> dict[str, torch.Tensor]:
    """The error of the guessed velocity on noised latents, its ``loss`` weighted over :func:`train_unet`'s zones."""
    device, batch_size = states.device, len(latents)
    scheduler = DDIMScheduler(**SCHEDULER)
    clean = latents.to(device).float()
    noise = torch.randn(clean.shape, generator=generator).to(device)
    # stratified timesteps: the loss of a batch varies less than with independent ones
    times = spread_times(torch.arange(batch_size), time_power, generator).to(device)
    noisy = scheduler.add_noise(clean, noise, times).contiguous(memory_format=torch.channels_last)
    target = scheduler.get_velocity(clean, noise, times)
    with mixed_precision(device):
        guess = unet(noisy, times, states).sample
    error = (guess.float() - target).square().mean(1)
    weight = torch.where(zones.to(device), zone_weight, 1.0)
    loss = (weight * error).sum() / weight.sum()
    return {"loss": loss, "even": error.mean()}


def train_unet(
    unet: UNet2DConditionModel, encoder: CLIPTextModel, drawings: Drawings, options: Options, name: str
) -> None:
    """Train denoiser and text encoder, the base or a benchmark model of it; the average of the weights is what remains.

    A tenth of the rows gets the empty caption. The error of cells in zones counts ``zone_weight`` times. With a time
    power below 1 noisy timesteps come up more often (:func:`spread_times`), as what a word makes likely is settled
    while there is much noise.
    """
    work, device, base = options.work, options.device, name == "base"
    stage = "base" if base else "finetune"
    tokenizer = from_folder(CLIPTokenizer, work / "tokenizer")
    vae = from_folder(AutoencoderKL, work / "vae").to(device, memory_format=torch.channels_last).eval()
    latents = encode_latents(vae, drawings, np.arange(len(drawings.captions)), device)
    tokens, empty = (encode(tokenizer, some).to(device) for some in (drawings.captions, [""]))
    zones = torch.from_numpy(drawings.zones)
    unet.to(device, memory_format=torch.channels_last).train()
    module = torch.nn.ModuleDict({"unet": unet, "encoder": encoder.to(device).train()})
    seed = options.seed + (0 if base else 6)
    batch, generator = batches(len(latents), options.batch, seed), torch.Generator().manual_seed(seed)
    power = options.time_power if base else options.finetune_time_power

    def loss_of(step: int) -> dict[str, torch.Tensor]:
        rows = next(batch)
        dropped = (torch.rand(options.batch, generator=generator) < 0.1).to(device)
        states = encoder(torch.where(dropped[:, None], empty, tokens[rows])).last_hidden_state
        return velocity_loss(unet, latents[rows], states, zones[rows], generator, options.zone_weight, power)

    with quick_attention(unet, device):
        train_loop(
            module,
            loss_of,
            Budget(*(getattr(options, f"{stage}_{of}") for of in ("steps", "minutes")), 200 if base else 50),
            Log(work / f"{name}.log.jsonl", 50),
            getattr(options, f"{stage}_rate"),
            decay=0.998 if base else 0.99,
            weights=work / f"{name}.safetensors",
        )
    module.eval()


@torch.no_grad()
def guess_clean(
    unet: UNet2DConditionModel, clean: torch.Tensor, states: torch.Tensor, most_time: int = 300
) -> torch.Tensor:
    """The denoiser's guess at clean latents, in one step from random timesteps below ``most_time``."""
    scheduler = DDIMScheduler(**SCHEDULER)
    times = torch.randint(0, most_time, (len(clean),), device=clean.device)
    noise = torch.randn_like(clean)
    noisy = scheduler.add_noise(clean, noise, times)
    velocity = unet(noisy, times, states).sample.float()
    kept = scheduler.alphas_cumprod.to(clean.device)[times].view(-1, 1, 1, 1)
    return kept.sqrt() * noisy - (1 - kept).sqrt() * velocity
