"""What kinds of steering have in common: which rows of a batch are steered, towards which word, and at which call."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from hooks.architectures.registry import architecture_of
from hooks.architectures.unet_batch import batch_of
from hooks.attach import attach_reader, attach_writer
from hooks.sites import Site, module_at

STEPS = 10  # of the images that are measured


class SteeredRows:
    """Hooks that steer the conditional rows of a pipeline at some attentions; a kind of steering says how.

    Which word a row is steered towards, or none, is drawn from a hash of its own noise: the same for any batch, process
    and order.

    Attributes
    ----------
    sites : sequence of Site
        Attentions that are steered.
    timesteps : Tensor, shape (calls,)
        Of the measured images.
    bounds : Tensor, shape (words,)
        Sums of the words' shares, each with those before it.
    rows : slice
        The conditional rows of the batch.
    drawn : Tensor, shape (rows,)
        Number of the word that each is steered towards, -1: none.
    call : int
        The call of the measured images that is nearest to this one by its timestep.
    """

    def __init__(self, pipe: Any, sites: Sequence[Site], timesteps: Tensor, shares: Sequence[float]) -> None:
        self._pipe, self.sites, self.timesteps = pipe, sites, timesteps
        self.bounds = torch.tensor(shares, dtype=torch.float64).cumsum(0)
        self.rows, self.drawn, self.call = slice(0), torch.zeros(0, dtype=torch.long), 0

    def attach(self) -> Callable[[], None]:
        """Put the hooks on, and return what takes them off."""
        stack = contextlib.ExitStack()
        denoiser = architecture_of(self._pipe).denoiser(self._pipe)
        stack.callback(
            denoiser.register_forward_pre_hook(self._before, with_kwargs=True, prepend=True).remove
        )
        for site in self.sites:
            writer = attach_writer(module_at(self._pipe, site.module), site, self.change(site.address))
            stack.callback(writer.remove)
        return stack.close

    def change(self, address: str) -> Callable[[Tensor], Tensor | None]:
        """What is put in the place of an attention's output: see `hooks.attach.attach_writer`."""
        raise NotImplementedError

    def begin(self, text: Tensor) -> None:
        """Take what the denoiser is given of the text, (rows, tokens, width), before the first call."""

    def _before(self, module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        time, sample = time_of(args, kwargs), args[0] if args else kwargs["sample"]
        self.call = int((self.timesteps - time).abs().argmin())
        if time == float(self._pipe.scheduler.timesteps[0]):
            batch = batch_of(self._pipe, sample)
            first = batch.branches.index("conditional") * batch.rows
            self.rows = slice(first, first + batch.rows)
            self.drawn = torch.tensor([self.draw(row) for row in sample[self.rows]])
            self.begin((args[2] if len(args) > 2 else kwargs["encoder_hidden_states"])[self.rows])

    def draw(self, noise: Tensor) -> int:
        """Number of the word that a row is steered towards, by its noise; -1 for none."""
        digest = hashlib.sha256(noise.detach().float().cpu().contiguous().numpy().tobytes()).digest()
        number = int.from_bytes(digest[:6], "big") / 2**48
        word = int(torch.searchsorted(self.bounds, number, right=True))
        return word if word < len(self.bounds) else -1


@contextlib.contextmanager
def recording(pipe: Any, sites: Sequence[Site]) -> Iterator[tuple[list[float], dict[str, list[Tensor]]]]:
    """Keep the timestep of every call and, by address, what attentions put out: (rows, channels), mean over pixels."""
    found: dict[str, list[Tensor]] = {site.address: [] for site in sites}
    times: list[float] = []

    def received(address: str) -> Callable[[Tensor], None]:
        return lambda values: found[address].append(values.detach().float().mean(1).cpu())

    denoiser = architecture_of(pipe).denoiser(pipe)
    with contextlib.ExitStack() as stack:
        timed = denoiser.register_forward_pre_hook(
            lambda module, args, kwargs: times.append(time_of(args, kwargs)), with_kwargs=True
        )
        stack.callback(timed.remove)
        for site in sites:
            stack.callback(attach_reader(module_at(pipe, site.module), site, received(site.address)).remove)
        yield times, found


def draw_latents(pipe: Any, texts: Sequence[str], seeds: Sequence[int]) -> None:
    """Draw texts, each from its noise, `STEPS` steps without guidance, for what hooks see of it."""
    with _without_bar(pipe):
        pipe(
            list(texts),
            generator=[torch.Generator("cpu").manual_seed(seed) for seed in seeds],
            num_inference_steps=STEPS,
            guidance_scale=1.0,
            output_type="latent",
        )


def time_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> float:
    """Timestep that a denoiser is called with."""
    return float(torch.as_tensor(args[1] if len(args) > 1 else kwargs["timestep"]).flatten()[0])


@contextlib.contextmanager
def _without_bar(pipe: Any) -> Any:
    before = dict(getattr(pipe, "_progress_bar_config", {}))
    pipe.set_progress_bar_config(disable=True)
    try:
        yield
    finally:
        pipe.set_progress_bar_config(**before)
