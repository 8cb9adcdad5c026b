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

import contextlib
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hooks.architectures.registry import architecture_of
from hooks.architectures.unet_batch import batch_of
from hooks.attach import attach_reader, attach_writer
from hooks.sites import Site, module_at
from probes.config.edit_options import Edit
from probes.prompts.alignment import fill

STEPS, SEEDS = 10, 2  # of the images in which means are taken, and noises of a context


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
    found: dict[str, list[Tensor]] = {site.address: [] for site in sites}
    times: list[float] = []

    def received(address: str) -> Callable[[Tensor], None]:
        return lambda values: found[address].append(values.detach().float().mean(1).cpu())

    denoiser = architecture_of(pipe).denoiser(pipe)
    with contextlib.ExitStack() as stack:
        timed = denoiser.register_forward_pre_hook(
            lambda module, args, kwargs: times.append(_time(args, kwargs)), with_kwargs=True
        )
        stack.callback(timed.remove)
        for site in sites:
            stack.callback(attach_reader(module_at(pipe, site.module), site, received(site.address)).remove)
        texts = [fill(context, word)[0] for word in words for context in edit.contexts for _ in range(SEEDS)]
        noise = [torch.Generator("cpu").manual_seed(number) for number in range(len(texts) // len(words))]
        stack.enter_context(_without_bar(pipe))
        for start in range(0, len(texts), len(noise)):  # a word at a time, all from the same noise
            generators = [torch.Generator("cpu").set_state(one.get_state()) for one in noise]
            pipe(
                texts[start : start + len(noise)],
                generator=generators,
                num_inference_steps=STEPS,
                guidance_scale=1.0,
                output_type="latent",
            )
    calls = len(times) // len(words)
    rows = {
        address: torch.stack([torch.stack(values[n * calls : (n + 1) * calls], 1) for n in range(len(words))])
        for address, values in found.items()
    }
    return Means(words, torch.tensor(times[:calls]), rows)


class Steering:
    """Hooks that steer a pipeline's cross-attentions.

    Attributes
    ----------
    gate : str
        Address of the cross-attention whose first output decides whether a row is steered.
    told : float
        Share of the contexts' images of which the gate tells whether they name the edited word, each left out.
    """

    def __init__(self, pipe: Any, edit: Edit, sites: Sequence[Site], means: Means) -> None:
        self._pipe, self._sites, self._means = pipe, sites, means
        ((_, shares),) = edit.words.items()
        self._bounds = torch.tensor(list(shares.values()), dtype=torch.float64).cumsum(0)
        self._amount = edit.amount
        self._word = {
            address: rows.mean(1) for address, rows in means.rows.items()
        }  # (words, calls, channels)
        self._bases = {address: _bases(values) for address, values in self._word.items()}
        scores = {address: _told(rows[:, :, 0]) for address, rows in means.rows.items()}
        self.gate = max(scores, key=lambda address: scores[address])
        self.told = scores[self.gate][0]
        self._rows: slice = slice(0)
        self._drawn: Tensor | None = None  # word of each row, -1: none
        self._towards: Tensor | None = None  # the same behind the gate, as soon as it has decided
        self._call = 0

    def attach(self) -> Callable[[], None]:
        """Put the hooks on, and return what takes them off."""
        stack = contextlib.ExitStack()
        denoiser = architecture_of(self._pipe).denoiser(self._pipe)
        stack.callback(
            denoiser.register_forward_pre_hook(self._before, with_kwargs=True, prepend=True).remove
        )
        for site in self._sites:
            writer = attach_writer(module_at(self._pipe, site.module), site, self._change(site.address))
            stack.callback(writer.remove)
        return stack.close

    def digest(self) -> Tensor:
        """Everything that it does, as numbers."""
        parts = [self._means.timesteps, self._bounds, torch.tensor([self._amount])]
        parts += [self._word[address].flatten() for address in sorted(self._word)]
        return torch.cat([one.double().flatten() for one in parts])

    def _before(self, module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        time, sample = _time(args, kwargs), args[0] if args else kwargs["sample"]
        self._call = int((self._means.timesteps - time).abs().argmin())
        if time == float(self._pipe.scheduler.timesteps[0]):
            batch = batch_of(self._pipe, sample)
            first = batch.branches.index("conditional") * batch.rows
            self._rows, self._towards = slice(first, first + batch.rows), None
            self._drawn = torch.tensor([self._draw(row) for row in sample[self._rows]])

    def _draw(self, noise: Tensor) -> int:
        """Number of the word that a row is steered towards, by its noise; -1 for none."""
        digest = hashlib.sha256(noise.detach().float().cpu().contiguous().numpy().tobytes()).digest()
        number = int.from_bytes(digest[:6], "big") / 2**48
        word = int(torch.searchsorted(self._bounds, number, right=True))
        return word if word < len(self._bounds) else -1

    def _change(self, address: str) -> Callable[[Tensor], Tensor | None]:
        def change(values: Tensor) -> Tensor | None:
            if self._towards is None and address == self.gate and self._drawn is not None:
                means = self._word[address][:, self._call]
                own = values[self._rows].float().mean(1).cpu()
                self._towards = torch.where(torch.cdist(own, means).argmin(1) == 0, self._drawn, -1)
            basis = self._bases[address][self._call]
            if self._towards is None or not len(basis) or (self._towards < 0).all():
                return None
            basis = basis.to(values.device)
            wanted = self._word[address][1 + self._towards.clamp_min(0), self._call].to(values.device)
            own = values[self._rows].float()
            apart = (own - wanted[:, None]) @ basis.T @ basis
            steered = (self._towards >= 0).to(values.device)[:, None, None]
            written = values.clone()
            written[self._rows] = torch.where(steered, own - self._amount * apart, own).to(values)
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


def _time(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> float:
    return float(torch.as_tensor(args[1] if len(args) > 1 else kwargs["timestep"]).flatten()[0])


@contextlib.contextmanager
def _without_bar(pipe: Any) -> Any:
    before = dict(getattr(pipe, "_progress_bar_config", {}))
    pipe.set_progress_bar_config(disable=True)
    try:
        yield
    finally:
        pipe.set_progress_bar_config(**before)
