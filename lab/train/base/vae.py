"""The autoencoder: 64 × 64 pixels to 4 × 16 × 16 latents."""

from collections.abc import Callable

import numpy as np
import torch
from diffusers import AutoencoderKL

from lab.train.base.data import Drawings
from lab.train.base.loop import Budget, Log, mixed_precision, train_loop
from lab.train.stages import Options
from probes.models.pretrained import from_folder

CONFIG = {
    "sample_size": 64,
    "in_channels": 3,
    "out_channels": 3,
    "latent_channels": 4,
    "block_out_channels": (16, 32, 64),
    "down_block_types": ("DownEncoderBlock2D",) * 3,
    "up_block_types": ("UpDecoderBlock2D",) * 3,
    "layers_per_block": 1,
    "norm_num_groups": 8,
    "mid_block_add_attention": True,
}


def train_vae(drawings: Drawings, options: Options) -> AutoencoderKL:
    """Train the autoencoder on absolute and squared error with a light KL term, and set its scaling factor.

    It goes on from the one in the work folder, if there is one. The scaling factor is one over the standard deviation
    of the latents, as in Rombach et al. 2022.
    """
    start, device, rng = options.work / "vae", options.device, np.random.default_rng(options.seed)
    torch.manual_seed(options.seed)
    vae = from_folder(AutoencoderKL, start) if start.exists() else AutoencoderKL(**CONFIG)
    torch.manual_seed(options.seed)
    vae.to(device, memory_format=torch.channels_last).train()

    def loss_of(step: int) -> dict[str, torch.Tensor]:
        pixels = drawings.pixels(rng.integers(len(drawings.captions), size=options.vae_batch), device)
        pixels = pixels.to(memory_format=torch.channels_last)
        with mixed_precision(device):
            posterior = vae.encode(pixels).latent_dist
            error = vae.decode(posterior.sample()).sample.float() - pixels
        kl = posterior.kl().mean() / posterior.mean[0].numel()
        absolute, squared = error.abs().mean(), error.square().mean()
        return {"loss": absolute + squared + 3e-3 * kl, "absolute": absolute, "kl": kl}

    budget = Budget(options.vae_steps, options.vae_minutes)
    train_loop(vae, loss_of, budget, Log(options.work / "vae.log.jsonl"), 2e-3, 0.0, decay=0.99)
    vae.eval()
    some = np.arange(min(1024, len(drawings.captions)))
    latents = encode_latents(vae, drawings, some, device, scaled=False)
    vae.register_to_config(scaling_factor=round(float(1 / latents.float().std()), 5))
    return vae


def refine_decoder(
    vae: AutoencoderKL,
    drawings: Drawings,
    options: Options,
    guess: Callable[[torch.Tensor, np.ndarray], torch.Tensor],
) -> None:
    """Train the decoder alone further; the latents, and so any denoiser trained on them, stay as they are.

    ``guess`` gives a denoiser's guess at scaled latents from a noisy version of them: half of a batch is decoded from
    such guesses, so that the decoder meets a denoiser's errors. To the mean latents of the other half noise is added,
    with a standard deviation of 0.05 in units of the latents' own.
    """
    torch.manual_seed(options.seed)
    rng, device, batch_size = np.random.default_rng(options.seed), options.device, options.vae_batch
    vae.to(device, memory_format=torch.channels_last).requires_grad_(False)
    decoder = torch.nn.ModuleList([vae.decoder, vae.post_quant_conv]).requires_grad_(True)
    scale = vae.config.scaling_factor

    def loss_of(step: int) -> dict[str, torch.Tensor]:
        rows = rng.integers(len(drawings.captions), size=batch_size)
        pixels = drawings.pixels(rows, device).to(memory_format=torch.channels_last)
        with mixed_precision(device):
            with torch.no_grad():
                latents = vae.encode(pixels).latent_dist.mean.float() * scale
                inputs = latents + 0.05 * torch.randn_like(latents)
                half = batch_size // 2
                inputs[:half] = guess(latents[:half], rows[:half])
            error = vae.decode(inputs / scale).sample.float() - pixels
        absolute, squared = error.abs().mean(), error.square().mean()
        return {"loss": absolute + squared, "absolute": absolute}

    budget = Budget(options.decoder_steps, options.decoder_minutes)
    train_loop(decoder, loss_of, budget, Log(options.work / "decoder.log.jsonl"), 1e-3, 0.0, decay=0.99)
    vae.requires_grad_(True).eval()


@torch.no_grad()
def encode_latents(
    vae: AutoencoderKL, drawings: Drawings, rows: np.ndarray, device: str = "cpu", scaled: bool = True
) -> torch.Tensor:
    """Mean latents of pictures: ``(len(rows), 4, 16, 16)`` float16, times the scaling factor if ``scaled``."""
    factor = vae.config.scaling_factor if scaled else 1.0
    parts = []
    for start in range(0, len(rows), 64):
        pixels = drawings.pixels(rows[start : start + 64], device).to(memory_format=torch.channels_last)
        with mixed_precision(device):
            mean = vae.encode(pixels).latent_dist.mean
        parts.append((mean.float() * factor).half().cpu())
    return torch.cat(parts)
