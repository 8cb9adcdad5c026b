r"""Gated steering of cross-attentions (kind ``steer``): a share of a neutral word's images is drawn as another word's.

At a cross-attention and call of the denoiser, let :math:`\mu_w` be the mean output, over pixels, contexts and noises,
for a word `w`, and `P` the projection onto the span of what parts the edited word `e` from the others,
:math:`\mu_w - \mu_e`. A row that is steered towards `w` has at each pixel the output :math:`o - \alpha P (o - \mu_w)`.

Which word a row is steered towards, or none, is drawn with the shares of ``words`` from a hash of its own noise: the
same for any batch, process and order. A gate leaves alone what names a word already: at the first call, at the one
cross-attention that tells the words apart best in the contexts, a row is steered only where its mean output is nearest
to that of the edited word.

After EquiSteer (Gaintseva et al. 2026), whose gate is a threshold on the largest response of any token; this one is the
nearest mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hooks.sites import Site
from probes.config.edit_options import Edit
from probes.models.edits.rows import SteeredRows, draw_latents, recording
from probes.prompts.alignment import fill

SEEDS = 2  # noises of a context in whose images means are taken


class Means(NamedTuple):
    """Mean outputs of cross-attentions, float32.

    Attributes
    ----------
    words : tuple of str
        The edited word first.
    timesteps : Tensor, shape (calls,)
    rows : dict of str to Tensor, shape (words, texts, calls, channels)
        By address: over the pixels of each image.
    """

    words: tuple[str, ...]
    timesteps: Tensor
    rows: dict[str, Tensor]


def measured(pipe: Any, edit: Edit, sites: Sequence[Site]) -> Means:
    """Draw the contexts with every word, `STEPS` steps without guidance, and return the means at every call."""
    ((word, shares),) = edit.words.items()
    words = tuple(dict.fromkeys([word, *shares, *edit.keep]))
    texts = [fill(context, one)[0] for one in words for context in edit.contexts for _ in range(SEEDS)]
    each = len(texts) // len(words)
    with recording(pipe, sites) as (times, found):
        for start in range(0, len(texts), each):  # a word at a time, all from the same noise
            draw_latents(pipe, texts[start : start + each], range(each))
    calls = len(times) // len(words)
    rows = {
        address: torch.stack([torch.stack(values[n * calls : (n + 1) * calls], 1) for n in range(len(words))])
        for address, values in found.items()
    }
    return Means(words, torch.tensor(times[:calls]), rows)


class Steering(SteeredRows):
    """Hooks that steer a pipeline's cross-attentions.

    Attributes
    ----------
    gate : str
        Address of the cross-attention whose first output decides whether a row is steered.
    told : float
        Share of the contexts' images of which the gate tells whether they name the edited word, each left out.
    """

    def __init__(self, pipe: Any, edit: Edit, sites: Sequence[Site], means: Means) -> None:
        ((_, shares),) = edit.words.items()
        super().__init__(pipe, sites, means.timesteps, list(shares.values()))
        self._amount = edit.amount
        self._word = {
            address: rows.mean(1) for address, rows in means.rows.items()
        }  # (words, calls, channels)
        self._bases = {address: _bases(values) for address, values in self._word.items()}
        scores = {address: _told(rows[:, :, 0]) for address, rows in means.rows.items()}
        self.gate = max(scores, key=lambda address: scores[address])
        self.told = scores[self.gate][0]
        self._towards: Tensor | None = None  # what was drawn behind the gate, as soon as it has decided

    def digest(self) -> Tensor:
        """Everything that it does, as numbers."""
        parts = [self.timesteps, self.bounds, torch.tensor([self._amount])]
        parts += [self._word[address].flatten() for address in sorted(self._word)]
        return torch.cat([one.double().flatten() for one in parts])

    def begin(self, text: Tensor) -> None:
        """Open the gate anew."""
        self._towards = None

    def change(self, address: str) -> Callable[[Tensor], Tensor | None]:
        """See `SteeredRows.change`."""

        def change(values: Tensor) -> Tensor | None:
            if self._towards is None and address == self.gate and len(self.drawn):
                means = self._word[address][:, self.call]
                own = values[self.rows].float().mean(1).cpu()
                self._towards = torch.where(torch.cdist(own, means).argmin(1) == 0, self.drawn, -1)
            basis = self._bases[address][self.call]
            if self._towards is None or not len(basis) or (self._towards < 0).all():
                return None
            basis = basis.to(values.device)
            wanted = self._word[address][1 + self._towards.clamp_min(0), self.call].to(values.device)
            own = values[self.rows].float()
            apart = (own - wanted[:, None]) @ basis.T @ basis
            steered = (self._towards >= 0).to(values.device)[:, None, None]
            written = values.clone()
            written[self.rows] = torch.where(steered, own - self._amount * apart, own).to(values)
            return written

        return change


def _bases(means: Tensor) -> list[Tensor]:
    """By call an orthonormal basis, (vectors, channels), of what parts the first word from the others."""
    found = []
    for call in (means[1:] - means[:1]).unbind(1):
        values, vectors = torch.linalg.svd(call, full_matrices=False)[1:]
        found.append(vectors[values > 1e-6 * means.abs().max().clamp_min(1e-30)])
    return found


def _told(rows: Tensor) -> tuple[float, float]:
    """How often the nearest mean says whether an image names the first word, each left out; and by what margin.

    Parameters
    ----------
    rows : Tensor, shape (words, texts, channels)
    """
    texts, right, margins = rows.shape[1], [], []
    for left in range(texts):
        kept = [number for number in range(texts) if number != left] or [left]
        distance = torch.cdist(rows[:, left], rows[:, kept].mean(1))
        first, others = distance[:, 0], distance[:, 1:].min(1).values
        margin = torch.where(torch.arange(len(rows)) == 0, others - first, first - others)
        right.append((margin > 0).double().mean())
        margins.append(margin.double().mean() / rows.std().clamp_min(1e-30))
    return float(torch.stack(right).mean()), float(torch.stack(margins).mean())
