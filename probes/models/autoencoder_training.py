"""Train a TopK sparse autoencoder: Gao et al. 2024, *Scaling and evaluating sparse autoencoders*, arXiv:2406.04093.

The decoder's directions have unit norm, the bias that encoder and decoder share begins at the data's geometric median,
and latents that have not been active for long learn to explain what the others leave (the auxiliary loss). Weights are
in units of the activations: what the data is scaled by for training is undone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from hooks.autoencoder import SparseAutoencoder
from probes.errors import UserError

EPSILON = 6.25e-10  # of Adam, as in the paper
LOGGED = 200  # rows of the history
_MEDIAN_ROWS, _MEDIAN_STEPS = 20_000, 30


@dataclass(frozen=True)
class Training:
    """How an autoencoder is trained.

    Attributes
    ----------
    latents : int
    k : int
        Latents that are active in a vector.
    steps, batch : int
        Steps of Adam, and vectors of each.
    rate : float, optional
        Its learning rate; by default 2e-4 / sqrt(latents / 2^14), the paper's law. It falls to 0 in the last fifth.
    auxiliary : float
        Weight of the auxiliary loss.
    dead_after : int, optional
        Vectors without which a latent counts as dead; by default those of a tenth of the steps.
    seed : int
    device : str
    """

    latents: int
    k: int
    steps: int = 2000
    batch: int = 1024
    rate: float | None = None
    auxiliary: float = 1 / 32
    dead_after: int | None = None
    seed: int = 0
    device: str = "cpu"

    @property
    def learning_rate(self) -> float:
        """Of the first steps."""
        return 2e-4 / (self.latents / 2**14) ** 0.5 if self.rate is None else self.rate


class Trained(NamedTuple):
    """A sparse autoencoder; by step the share of variance that it left in the batch, and the share of dead latents."""

    autoencoder: SparseAutoencoder
    history: pd.DataFrame


def train(
    vectors: NDArray[np.float32],
    training: Training,
    *,
    site: str = "",
    progress: Callable[[], object] = lambda: None,
) -> Trained:
    """Train a sparse autoencoder.

    Parameters
    ----------
    vectors : ndarray of float32, shape (n, width)
    training : Training
    site : str
        Address of the site that they are of.
    progress : callable
        Called after each step.

    Raises
    ------
    UserError
        A vector is not finite, all are one, or `k` is more than the latents.
    """
    if training.k > training.latents:
        raise UserError(
            f"k: expected at most the {training.latents} latents, got {training.k}: lower it, or take more latents"
        )
    if not np.isfinite(vectors).all():
        raise UserError(f"{site or 'vectors'}: expected finite activations, got others: leave them out")
    random = torch.Generator().manual_seed(training.seed)
    data = torch.from_numpy(np.ascontiguousarray(vectors, np.float32))
    median = geometric_median(data[torch.randperm(len(data), generator=random)[:_MEDIAN_ROWS]])
    size = float((data - median).square().sum(1).mean())
    if not size > 0:
        raise UserError(f"{site or 'vectors'}: expected activations that differ, got one: name another site")
    scale = (data.shape[1] / size) ** 0.5
    weights = _begin(data.shape[1], training.latents, median * scale, random)
    for one in weights:
        one.data = one.to(training.device)
        one.requires_grad_()
    history = _fit(data, scale, weights, training, random, progress)
    encoder, encoder_bias, decoder, bias = (one.detach().cpu() for one in weights)
    # (scale x - bias) E + e is scale times that of what is returned, and the k largest are the same
    made = SparseAutoencoder(encoder, encoder_bias / scale, decoder, bias / scale, k=training.k, site=site)
    return Trained(made, history)


def _begin(width: int, latents: int, median: Tensor, random: torch.Generator) -> list[Tensor]:
    """Encoder, its bias, decoder, shared bias: random directions, and the encoder their transpose."""
    decoder = torch.randn(latents, width, generator=random)
    decoder /= decoder.norm(dim=1, keepdim=True)
    return [decoder.T.contiguous(), torch.zeros(latents), decoder, median.clone()]


def _fit(
    data: Tensor,
    scale: float,
    weights: list[Tensor],
    training: Training,
    random: torch.Generator,
    progress: Callable[[], object],
) -> pd.DataFrame:
    encoder, encoder_bias, decoder, bias = weights
    adam = torch.optim.Adam(weights, lr=training.learning_rate, eps=EPSILON)
    last = max(1, training.steps // 5)
    falling = torch.optim.lr_scheduler.LambdaLR(adam, lambda step: min(1.0, (training.steps - step) / last))
    dead_after = training.dead_after or max(1, training.steps // 10) * training.batch
    silent = torch.zeros(training.latents, dtype=torch.long, device=decoder.device)
    variance = float((data - data.mean(0)).square().sum(1).mean()) * scale**2
    history = []
    for step in range(training.steps):
        chosen = torch.randint(len(data), (training.batch,), generator=random)
        batch = data[chosen].to(decoder.device) * scale
        before = (batch - bias) @ encoder + encoder_bias
        latents = _largest(before, training.k)
        left = batch - (latents @ decoder + bias)
        unexplained = left.square().sum(1).mean() / variance
        silent = torch.where((latents > 0).any(0), 0, silent + training.batch)
        dead = silent >= dead_after
        loss = unexplained + training.auxiliary * _auxiliary(before, dead, left.detach(), decoder)
        adam.zero_grad()
        loss.backward()
        _keep_norm(decoder)
        adam.step()
        falling.step()
        with torch.no_grad():
            decoder /= decoder.norm(dim=1, keepdim=True)
        if step % max(1, training.steps // LOGGED) == 0 or step == training.steps - 1:
            history.append((step, float(unexplained.detach()), float(dead.float().mean())))
        progress()
    return pd.DataFrame(history, columns=["step", "unexplained", "dead"])


def _largest(before: Tensor, k: int) -> Tensor:
    top = before.topk(k, dim=1)
    return torch.zeros_like(before).scatter(1, top.indices, top.values.relu())


def _auxiliary(before: Tensor, dead: Tensor, left: Tensor, decoder: Tensor) -> Tensor:
    """Share of what is left that the largest dead latents leave too; 0 where none is dead."""
    count = min(int(dead.sum()), max(1, decoder.shape[1] // 2))
    total = left.square().sum(1).mean()
    if not count or not total > 0:
        return left.new_zeros(())
    guess = _largest(before.masked_fill(~dead, -torch.inf), count) @ decoder
    return (left - guess).square().sum(1).mean() / total


def _keep_norm(decoder: Tensor) -> None:
    """Take out of the gradient what would change the norm of a direction."""
    assert decoder.grad is not None
    along = (decoder.grad * decoder.detach()).sum(1, keepdim=True)
    decoder.grad -= along * decoder.detach()


def geometric_median(data: Tensor) -> Tensor:
    """The point whose summed distance to all rows is least, by Weiszfeld's algorithm; shape (width,)."""
    point = data.mean(0)
    for _ in range(_MEDIAN_STEPS):
        weight = 1 / (data - point).norm(dim=1).clamp(min=1e-8)
        point = (weight[:, None] * data).sum(0) / weight.sum()
    return point
