"""The image latent that a guided prediction points to.

A denoiser of noise is always given a variance-preserving x_t (sigma schedulers divide by sqrt(sigma^2 + 1) first), so
that one formula serves all schedulers, with the signal level a:

    epsilon        x0 = (x_t - sqrt(1 - a) * output) / sqrt(a)
    v_prediction   x0 = sqrt(a) * x_t - sqrt(1 - a) * output
    sample         x0 = output

No clipping or thresholding: this is the prediction itself, not what a scheduler makes of it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def signal_level(scheduler: Any, timestep: Any, device: torch.device) -> Tensor:
    """Share of signal in the variance of x_t (`alphas_cumprod`) at the UNet call under way, float32 on `device`.

    Schedulers that step through `sigmas` are asked for the sigma of their current step, 1 / (sigma^2 + 1);
    the others for `alphas_cumprod` at the timestep, interpolated between neighbours if it is no whole number. Nothing
    waits for the device.
    """
    sigma = current_sigma(scheduler, timestep)
    if sigma is not None:
        return (1.0 / (sigma.to(torch.float64) ** 2 + 1.0)).to(device, torch.float32)
    table = scheduler.alphas_cumprod.to(device, torch.float32)
    t = torch.as_tensor(timestep, device=device).flatten()[0].double().clamp(0, len(table) - 1)
    below = t.floor().long()
    above = t.ceil().long()
    return torch.lerp(table[below], table[above], (t - below).float())


def current_sigma(scheduler: Any, timestep: Any) -> Tensor | None:
    """The sigma of a scheduler's step that is about to be made, shape (); None of one that has no sigmas."""
    sigmas = getattr(scheduler, "sigmas", None)
    if sigmas is None or not hasattr(scheduler, "step_index"):
        return None
    index = scheduler.step_index
    if index is None:  # not set before the first step: looked up as the scheduler itself will
        begin = getattr(scheduler, "begin_index", None)
        index = begin if begin is not None else scheduler.index_for_timestep(timestep)
    if not getattr(scheduler, "state_in_first_order", True) and hasattr(scheduler, "sigmas_interpol"):
        sigmas = scheduler.sigmas_interpol  # the KDPM2 schedulers' second call of a step
    return sigmas[index]


def predict_x0(sample: Tensor, output: Tensor, level: Tensor, prediction_type: str) -> Tensor:
    """The image latent, float32, that a guided prediction at x_t points to; `level`: see `signal_level`.

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
