"""Gradient attribution: to first order, what patching keys and values would do to the image.

A swap is drawn at the price of an image each; the gradient of one outcome with respect to all keys and values is had at
the price of one pass backwards through the steps. What it gives is an estimate of the swap (attribution patching), not
the swap: `docs/validation/tracing.md` holds both against benchmark models whose location is known.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from hooks import sites as site_table
from hooks.architectures.registry import architecture_of
from hooks.attach import attach_writer
from hooks.sites import Site, module_at
from lab.validate.tracing.site_values import SiteValues
from probes.stages.trace.triplet_draw import TripletDraw

PARTS = ("key", "value")
ROUNDING = (
    1000.0  # times the precision of a number, of the length of a latent: what the order of sums can alter
)


def gradient_attribution(
    pipe: Any,
    draws: Sequence[TripletDraw],
    recipient: str,
    donor: str,
    *,
    steps: int,
    guidance_scale: float | None = None,
    checkpointed: bool = True,
    points: Sequence[float] = (0.0,),
) -> SiteValues:
    r"""Return what the gradient says of giving a recipient the donor's keys and values at each cross-attention.

    With final latents :math:`z_R, z_D` and :math:`u = (z_D - z_R) / \lVert z_D - z_R \rVert^2`, the value of a site at
    a call is :math:`\nabla_{kv} \langle z_R, u \rangle \cdot (kv_D - kv_R)` with `u` held fixed, over the conditional
    half of the batch. Where both words draw the very same latents there is nothing to attribute, and all values are 0.

    Parameters
    ----------
    pipe
        A pipeline of Stable Diffusion, in float32 or float64.
    draws
        Triplets, each with its noise; all are rows of one batch.
    recipient, donor : str
        Indicators.
    steps, guidance_scale
        Of the pipeline.
    checkpointed : bool
        Keep what stands between the calls alone and run each call of the denoiser again on the way back: memory does
        not grow with what is inside a call times the steps, at the price of one more pass forwards.
    points : sequence of float
        Where the gradient is taken, its mean over all: 0 is the recipient, 1 the recipient with the donor's keys and
        values at all cross-attentions. Points spread evenly between (integrated gradients) see what the recipient's
        own gradient does not: a place that another one keeps shut.

    Returns
    -------
    SiteValues
        The share of the way from the recipient's final latent to the donor's; added up over calls it estimates the
        share of a swap at all steps.

    Raises
    ------
    HookError
        A pipeline that is not supported.

    Source
    ------
    Attribution patching: Nanda 2023; Syed, Rager, Conmy 2023; Kramár et al. 2024. Integrated gradients: Sundararajan,
    Taly, Yan 2017; Hanna, Pezzelle, Belinkov 2024. Checkpoints: Chen et al. 2016.
    """
    names = tuple(site.address for site in site_table.attention_sites(pipe, "cross"))
    prompts = [one.prompts[name] for name in (recipient, donor) for one in draws]
    settings = {"num_inference_steps": steps, "output_type": "latent"}
    settings |= {} if guidance_scale is None else {"guidance_scale": guidance_scale}

    def latents() -> Tensor:
        noise = [torch.Generator("cpu").manual_seed(one.noise_seed) for _ in range(2) for one in draws]
        call = type(pipe).__call__.__wrapped__  # without the no_grad around it
        return call(pipe, prompts, generator=noise, **settings).images.flatten(1)

    with torch.no_grad():
        recipients, donors = latents().split(len(draws))
    apart = _apart(recipients, donors)
    length = (apart**2).sum(1, keepdim=True)
    along = apart / length.clamp_min(torch.finfo(length.dtype).tiny)
    found = [_at(pipe, point, names, latents, along, checkpointed) for point in points]
    return SiteValues(names, np.mean(found, axis=0))


def _at(
    pipe: Any,
    point: float,
    names: Sequence[str],
    latents: Callable[[], Tensor],
    along: Tensor,
    checkpointed: bool,
) -> NDArray[np.float64]:
    """Gradient times difference at a point of the way, (draws, sites, calls)."""
    every = {site.address: site for site in site_table.available(pipe)}
    watched = [every[f"{name}.{part}"] for name in names for part in PARTS]
    perturbed, number = _Perturbed(pipe, len(along), point), len(along)
    with torch.enable_grad(), _frozen(pipe), perturbed.attached(watched, checkpointed):
        outcome = (latents()[:number] * along).sum()
        keys = list(perturbed.zeros)
        gradients = torch.autograd.grad(outcome, [perturbed.zeros[key] for key in keys])
    values = np.zeros((number, len(names), 1 + max(step for step, _ in keys)))
    for (step, address), gradient in zip(keys, gradients, strict=True):
        product = (gradient * perturbed.differences[step, address]).flatten(1).sum(1)
        values[:, names.index(address.rpartition(".")[0]), step] += product.double().cpu().numpy()
    return values


def _apart(recipients: Tensor, donors: Tensor) -> Tensor:
    """Return how far donors' latents are from recipients', ``(n, values)``; 0 where rounding alone parts them."""
    apart = donors - recipients
    rounding = ROUNDING * torch.finfo(apart.dtype).eps * recipients.norm(dim=1, keepdim=True)
    return torch.where(apart.norm(dim=1, keepdim=True) > rounding, apart, 0.0)


class _Perturbed:
    """Adds to the recipients' keys and values zeros whose gradient is asked for, at every call of the denoiser.

    At a `point` of the way to the donor's: 0 is the recipient.
    """

    def __init__(self, pipe: Any, draws: int, point: float) -> None:
        self.pipe, self.draws, self.point = pipe, draws, point
        self.zeros: dict[tuple[int, str], Tensor] = {}
        self.differences: dict[tuple[int, str], Tensor] = {}
        self._call, self._calls = -1, 0

    @contextlib.contextmanager
    def attached(self, sites: Sequence[Site], checkpointed: bool) -> Iterator[None]:
        denoiser = architecture_of(self.pipe).denoiser(self.pipe)
        plain = denoiser.forward

        def numbered(number: int, *args: Any, **kwargs: Any) -> Any:
            self._call = number  # also where a call is run again on the way back
            return plain(*args, **kwargs)

        def forward(*args: Any, **kwargs: Any) -> Any:
            number, self._calls = self._calls, self._calls + 1
            if not checkpointed:
                return numbered(number, *args, **kwargs)
            return checkpoint(numbered, number, *args, use_reentrant=False, **kwargs)

        with contextlib.ExitStack() as stack:
            denoiser.forward = forward
            stack.callback(delattr, denoiser, "forward")
            for site in sites:
                module = module_at(self.pipe, site.module)
                stack.callback(attach_writer(module, site, self._writer(site.address)).remove)
            yield

    def _writer(self, address: str) -> Callable[[Tensor], Tensor]:
        def change(values: Tensor) -> Tensor:
            start = len(values) - 2 * self.draws  # the conditional half stands last
            recipients, donors = values[start : start + self.draws], values[start + self.draws :]
            key = (self._call, address)
            if key not in self.zeros:
                self.zeros[key] = torch.zeros_like(recipients, requires_grad=True)
                self.differences[key] = (donors - recipients).detach()
            there = recipients + self.zeros[key]
            if self.point:
                there = there + self.point * self.differences[key]
            return torch.cat([values[:start], there, donors])

        return change


@contextlib.contextmanager
def _frozen(pipe: Any) -> Iterator[None]:
    """Ask for no gradient of weights."""
    weights = [
        weight
        for module in pipe.components.values()
        if isinstance(module, torch.nn.Module)
        for weight in module.parameters()
        if weight.requires_grad
    ]
    try:
        for weight in weights:
            weight.requires_grad_(False)
        yield
    finally:
        for weight in weights:
            weight.requires_grad_(True)
