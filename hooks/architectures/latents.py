"""Latents: the VAE that decodes them (diffusers' AutoencoderKL and its like), and x0 from a guided prediction.

A denoiser of noise is always given a variance-preserving x_t (sigma schedulers divide by sqrt(sigma^2 + 1) first), so
that one formula serves all schedulers, with the signal level a:

    epsilon        x0 = (x_t - sqrt(1 - a) * output) / sqrt(a)
    v_prediction   x0 = sqrt(a) * x_t - sqrt(1 - a) * output
    sample         x0 = output

No clipping or thresholding: this is the prediction itself, not what a scheduler makes of it. Imports no torch.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hooks.architectures.layout import MisfitError
from hooks.architectures.site import Site, children

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_RESCALED = "it is rescaled before it is decoded: write at vae.post_quant, or pass other latents to the VAE"
_LAST = "nothing runs after it: change the image that the pipeline returns"
# a scheduler's table in float32, which is one object at every step
_on_device = functools.lru_cache(maxsize=1)(
    lambda table, device: table.float().to(device, non_blocking=device.type == "cuda")
)


def latent_scale(vae: Any) -> int:
    """Pixels of the image per pixel of the latent, along a side: 2 to the power of (levels of the VAE - 1)."""
    return 2 ** (len(_channels_by_level(vae.config)) - 1)


def _channels_by_level(config: Any) -> Sequence[int]:
    """Channels of each resolution level, from the configuration of an AutoencoderKL, AutoencoderDC or Qwen's VAE."""
    if getattr(config, "dim_mult", None) is not None:
        return [config.base_dim * multiple for multiple in config.dim_mult]
    return getattr(config, "block_out_channels", None) or config.decoder_block_out_channels


def _latent_channels(config: Any) -> int:
    """Number of the latent's channels, from the configuration of a VAE."""
    return int(config.z_dim if hasattr(config, "z_dim") else config.latent_channels)


def decoder_sites(vae: Any) -> Iterator[Site]:
    """Sites of the final latent, the VAE decoder's blocks and the image, in the order in which they run."""
    decoder = vae.decoder

    def site(address: str, path: str, default: bool = False) -> Site:
        """Return the site of a module of the VAE."""
        return Site(f"vae.{address}", f"vae.{path}", default=default)

    def level_sites(address: str, path: str, module: Any) -> Iterator[Site]:
        """Yield the sites of the decoder's middle block or of one up block, in the order in which they run."""
        for i in range(len(children(module, "resnets"))):
            yield site(f"{address}.resnet.{i}", f"{path}.resnets.{i}")
            if i < len(children(module, "attentions")) and module.attentions[i] is not None:
                yield site(f"{address}.attn.{i}", f"{path}.attentions.{i}")
        if children(module, "upsamplers"):
            yield site(f"{address}.upsample", f"{path}.upsamplers.0")
        yield site(address, path, default=True)

    has_post_quant = getattr(vae, "post_quant_conv", None) is not None
    entrance = "vae.post_quant_conv" if has_post_quant else "vae.decoder"
    yield Site("latent.final", entrance, read="pipeline", read_only=_RESCALED)
    if has_post_quant:
        yield site("post_quant", "post_quant_conv", default=True)
    if hasattr(decoder, "conv_in"):
        yield site("decoder.conv_in", "decoder.conv_in")
    if getattr(decoder, "mid_block", None) is not None:
        yield from level_sites("decoder.mid", "decoder.mid_block", decoder.mid_block)
    for b, module in enumerate(children(decoder, "up_blocks")):
        yield from level_sites(f"decoder.up.{b}", f"decoder.up_blocks.{b}", module)
    yield Site("image", "vae.decoder", read_only=_LAST)


def final_latent(vae: Any, decoder_input: Tensor, normalized: bool = False) -> Tensor:
    """The final latent z0 as the denoiser scales it, from the decoder's input; both (rows, channels, h, w).

    `normalized`: the pipeline shifts and scales by the mean and deviation that the VAE's configuration may have.
    """
    config = vae.config
    latent = decoder_input.squeeze(2) if decoder_input.ndim == 5 else decoder_input  # a video of one frame
    if hasattr(vae, "bn"):
        from torch.nn.functional import pixel_shuffle

        # FLUX.2's: a mean and a variance for each channel and place in a patch
        mean, variance = (
            pixel_shuffle(values.view(1, -1, 1, 1).to(latent), 2)
            for values in (vae.bn.running_mean, vae.bn.running_var)
        )
        repeats = (1, 1, latent.shape[-2] // 2, latent.shape[-1] // 2)
        return (latent - mean.repeat(repeats)) / (variance + config.batch_norm_eps).sqrt().repeat(repeats)
    mean, std = getattr(config, "latents_mean", None), getattr(config, "latents_std", None)
    factor = getattr(config, "scaling_factor", None)
    if (normalized or factor is None) and mean is not None and std is not None:
        mean, std = (latent.new_tensor(v).view(1, -1, 1, 1) for v in (mean, std))
        return (latent - mean) * (1.0 if factor is None else factor) / std
    shift = getattr(config, "shift_factor", None)
    return (latent if shift is None else latent - shift) * factor


def decode(vae: Any, latent: Tensor) -> Tensor:
    """Images (rows, 3, height, width) that a VAE decodes from latents (rows, channels, h, w) in its own scale."""
    values = latent.unsqueeze(2) if hasattr(vae.config, "z_dim") else latent  # a video of one frame
    image = vae.decode(values).sample
    return image.squeeze(2) if image.ndim == 5 else image


def check_scaling(config: Any) -> None:
    """Raise a MisfitError if a VAE's configuration has no usable scaling factor, or mean and deviation of latents."""
    factor = getattr(config, "scaling_factor", None)
    number = isinstance(factor, (int, float)) and not isinstance(factor, bool) and 0 < factor < float("inf")
    # Qwen's VAE has a mean and a deviation instead, FLUX.2's has them beside its weights
    if not number and not hasattr(config, "z_dim") and not hasattr(config, "batch_norm_eps"):
        raise MisfitError("vae", "`scaling_factor`, a number above 0", f"{factor!r:.40}", "mend it")
    shift = getattr(config, "shift_factor", None)
    if not isinstance(shift, (int, float, type(None))):
        raise MisfitError("vae", "`shift_factor`, a number or null", f"{shift!r:.40}", "mend it")
    for key in ("latents_mean", "latents_std"):
        values = getattr(config, key, None)
        complete = isinstance(values, (list, tuple)) and len(values) == _latent_channels(config)
        if values is not None and not (complete and all(isinstance(value, (int, float)) for value in values)):
            expected = f"`{key}`, {_latent_channels(config)} numbers or null"
            raise MisfitError("vae", expected, f"{values!r:.40}", "mend it")


def signal_level(scheduler: Any, timestep: Any, device: torch.device) -> Tensor:
    """Share of signal in the variance of x_t (`alphas_cumprod`) at the current step, a float32 scalar.

    Schedulers that step through `sigmas` are asked for the sigma of their current step, 1 / (sigma^2 + 1);
    the others for `alphas_cumprod` at the timestep, interpolated between neighbours if it is no whole number. On the
    CPU if that is where it was read, else on `device`: nothing waits for the device.
    """
    import torch

    sigma = current_sigma(scheduler, timestep)
    if sigma is not None:
        level = (1.0 / (sigma.to(torch.float64) ** 2 + 1.0)).float()
    else:
        t = torch.as_tensor(timestep).flatten()[:1]
        table = _on_device(scheduler.alphas_cumprod, t.device)
        t = t.clamp(0, len(table) - 1)
        below, above = (table.index_select(0, index.long()) for index in (t.floor(), t.ceil()))
        level = torch.lerp(below, above, (t - t.floor()).float())[0]
    return level if level.is_cpu else level.to(device)


def current_sigma(scheduler: Any, timestep: Any) -> Tensor | None:
    """Sigma of the scheduler's current step, shape (); None for a scheduler without `sigmas` or `step_index`."""
    sigmas = getattr(scheduler, "sigmas", None)
    if sigmas is None or not hasattr(scheduler, "step_index"):
        return None
    index = scheduler.step_index
    if index is None and hasattr(scheduler, "_init_step_index"):
        scheduler._init_step_index(timestep)  # as its step would next: a GPU is waited for once, not twice
        index = scheduler.step_index
    elif index is None:
        begin = getattr(scheduler, "begin_index", None)
        index = begin if begin is not None else scheduler.index_for_timestep(timestep)
    if not getattr(scheduler, "state_in_first_order", True) and hasattr(scheduler, "sigmas_interpol"):
        sigmas = scheduler.sigmas_interpol  # the KDPM2 schedulers' second call of a step
    return sigmas[index]


def predict_x0(sample: Tensor, output: Tensor, level: Tensor, prediction_type: str) -> Tensor:
    """The image latent x0, float32, from the prediction `output` at the noisy latent `sample` and its signal level.

    Examples
    --------
    >>> import torch
    >>> predict_x0(torch.tensor([1.4]), torch.tensor([1.0]), torch.tensor(0.36), "epsilon")
    tensor([1.0000])
    """
    sample, output = sample.float(), output.float()
    if prediction_type == "epsilon":
        return (sample - (1 - level).sqrt() * output) / level.sqrt()
    if prediction_type == "v_prediction":
        return level.sqrt() * sample - (1 - level).sqrt() * output
    if prediction_type == "sample":
        return output
    raise ValueError(
        f"prediction_type: expected epsilon, v_prediction or sample, but got {prediction_type!r}"
    )
