r"""Steering of what a model chooses where no word does (kind ``steer_choice``): probes of self-attentions.

The contexts are drawn with the edited word, and with the two words that its images are to be like. A probe (logistic
regression) tells the images of the two words apart, and so labels those of the edited word: which of the two each is
like. At each self-attention and call of the denoiser a probe is then trained to tell these labels from the output, mean
over pixels. The `layers` whose probes are right most often in contexts left out are steered: with `u` the unit vector
of a probe's weights and :math:`t_w` the mean of :math:`u \cdot \bar o` over images of the edited word like `w`, a row
that is steered towards `w` has at each pixel the output :math:`o + \alpha (t_w - u \cdot \bar o) u`. Rows that are
where they shall be stay.

Which word a row is steered towards, or none, is drawn with the shares of ``words`` (`probes.models.edits.rows`). A gate
leaves alone what names another word, or none (`probes.models.edits.word_gate`).

After ICM (Implicit Choice-Modification), which takes the self-attentions with the best probes, and adds their
directions. What is particular here: the labels, for which ICM is told what finished images show; the amount, which is
set by hand there and the same for all rows; how many layers, at which steps (here all); the gate.

Source
------
Zaleska, Popek, Wysoczańska and Deja 2026, "Attention, May I Have Your Decision? Localizing Generative Choices in
Diffusion Models", arXiv:2604.06052.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hooks.architectures.registry import architecture_of
from hooks.sites import Site
from probes.config.edit_options import Edit
from probes.errors import UserError
from probes.models.edits import logistic
from probes.models.edits.rows import SteeredRows, draw_latents, recording
from probes.models.edits.states import Texts
from probes.models.edits.word_gate import WordGate

SEEDS = 4  # noises of a context
LEAST = 2  # images of the edited word that are like either word
_TEXT = ("encoder_hidden_states", "added_cond_kwargs")  # what a U-Net is given of the text


class Choices(NamedTuple):
    """What is measured of the edited word's images, noise by noise with all contexts.

    Attributes
    ----------
    timesteps : Tensor, shape (calls,)
    rows : dict of str to Tensor, shape (images, calls, channels)
        By address: outputs of self-attentions, mean over pixels.
    labels : Tensor of bool, shape (images,)
        Whether each is like the second of the two words.
    contexts : Tensor of int, shape (images,)
        What is left out together.
    words_told : float
        Balanced accuracy of the probe that labels, on images of the two words in contexts left out.
    """

    timesteps: Tensor
    rows: dict[str, Tensor]
    labels: Tensor
    contexts: Tensor
    words_told: float


def measured(pipe: Any, edit: Edit, texts: Mapping[str, Texts], sites: Sequence[Site]) -> Choices:
    """Draw the contexts with the edited word and the two others, and label the images of the first.

    At its last call the denoiser reads the text of the edited word in all of them, so that what parts their
    self-attentions is the image.

    Parameters
    ----------
    texts
        The contexts by word.
    sites
        All self-attentions of the model.

    Raises
    ------
    UserError
        Too few images are like one of the words.
    """
    ((word, shares),) = edit.words.items()
    text: dict[str, Any] = {}
    calls = number = 0

    def swapped(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        nonlocal number
        number += 1
        if not calls:  # of the edited word
            text.update({name: kwargs[name] for name in _TEXT if name in kwargs})
        return (args, {**kwargs, **text}) if calls and number % calls == 0 else None

    count = len(edit.contexts)
    with recording(pipe, sites) as (times, found):
        handle = architecture_of(pipe).denoiser(pipe).register_forward_pre_hook(swapped, with_kwargs=True)
        try:
            for one in (word, *shares):
                for seed in range(SEEDS):  # all contexts at once, of every word from the same noise
                    draw_latents(pipe, texts[one].texts, range(seed * count, (seed + 1) * count))
                    calls = calls or number
        finally:
            handle.remove()
    batches = {  # (words, noises, calls, contexts, channels)
        address: torch.stack(values).unflatten(0, (1 + len(shares), SEEDS, calls))
        for address, values in found.items()
    }
    every = {address: values.movedim(2, 3).flatten(1, 2) for address, values in batches.items()}
    contexts = torch.arange(count).repeat(SEEDS) if count > 1 else torch.arange(SEEDS)
    labels, told = _labelled(torch.cat([_scaled(values[:, :, -1]) for values in every.values()], 2), contexts)
    few = min(int(labels.sum()), int((~labels).sum()))
    if few < LEAST:
        first, second = shares
        rare = second if labels.sum() == few else first
        raise UserError(
            f"edit: expected at least {LEAST} of {len(labels)} images of {word!r} like those of {rare!r}, got {few}:"
            " add contexts, or use kind steer"
        )
    rows = {address: values[0] for address, values in every.items()}
    return Choices(torch.tensor(times[:calls]), rows, labels, contexts, told)


def _scaled(values: Tensor) -> Tensor:
    """Outputs as long as those of any other self-attention, on average."""
    return values / values.norm(dim=-1).mean().clamp_min(1e-30)


def _labelled(features: Tensor, contexts: Tensor) -> tuple[Tensor, float]:
    """Labels of the first word's images by a probe of the two others', and its accuracy in contexts left out.

    Parameters
    ----------
    features : Tensor, shape (3, images, channels)
    """
    rows, labels = features[1:].flatten(0, 1)[None], torch.arange(2).repeat_interleave(len(contexts)) > 0
    weight, intercept = logistic.fit(rows, labels)
    told = logistic.accuracy(rows, labels, contexts.repeat(2))
    return features[0].double() @ weight[0] + intercept[0] > 0, float(told)


class ChoiceSteering(SteeredRows):
    """Hooks that steer a pipeline's self-attentions along what probes have learnt.

    Attributes
    ----------
    accuracy : dict of str to float
        By address: balanced accuracy of its probes in contexts left out, mean over calls.
    """

    def __init__(
        self, pipe: Any, edit: Edit, sites: Sequence[Site], choices: Choices, gate: WordGate
    ) -> None:
        """Train the probes.

        Parameters
        ----------
        sites
            Self-attentions of which the best are steered.
        """
        ((_, shares),) = edit.words.items()
        self.accuracy = {
            site.address: float(
                logistic.accuracy(
                    choices.rows[site.address].movedim(1, 0), choices.labels, choices.contexts
                ).mean()
            )
            for site in sites
        }
        best = sorted(sites, key=lambda site: -self.accuracy[site.address])[: edit.layers]
        super().__init__(
            pipe, [site for site in sites if site in best], choices.timesteps, list(shares.values())
        )
        self._gate, self._amount = gate, edit.amount
        self._along, self._wanted = {}, {}
        for site in self.sites:
            rows = choices.rows[site.address].movedim(1, 0).double()  # (calls, images, channels)
            weight, _ = logistic.fit(rows, choices.labels)
            length = weight.norm(dim=1, keepdim=True)
            unit = torch.where(length > 1e-12, weight / length.clamp_min(1e-12), 0)
            along = (rows @ unit[..., None])[..., 0]
            of_words = [along[:, choices.labels == second].mean(1) for second in (False, True)]
            self._along[site.address], self._wanted[site.address] = unit, torch.stack(of_words, 1)
        self._towards = self.drawn

    def digest(self) -> Tensor:
        """Everything that it does, as numbers."""
        parts = [self.timesteps, self.bounds, torch.tensor([self._amount]), self._gate.digest()]
        for site in self.sites:
            parts += [self._along[site.address], self._wanted[site.address]]
        return torch.cat([one.double().flatten() for one in parts])

    def begin(self, text: Tensor) -> None:
        """Close the gate to rows that do not name the word."""
        self._towards = torch.where(self._gate.names(text), self.drawn, -1)

    def change(self, address: str) -> Callable[[Tensor], Tensor | None]:
        """See `SteeredRows.change`."""

        def change(values: Tensor) -> Tensor | None:
            if (self._towards < 0).all():
                return None
            unit = self._along[address][self.call].to(values.device, torch.float32)
            wanted = self._wanted[address][self.call][self._towards.clamp_min(0)].to(unit)
            own = values[self.rows].float()
            missing = torch.where((self._towards >= 0).to(values.device), wanted - own.mean(1) @ unit, 0)
            written = values.clone()
            written[self.rows] = (own + self._amount * missing[:, None, None] * unit).to(values)
            return written

        return change
