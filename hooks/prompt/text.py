"""Runs of a text encoder, and which of them the denoiser is conditioned on.

A pipeline runs its text encoder once for the prompts and, under guidance, once more for the negative
prompts; nothing in the encoder tells the two apart. So every run before the first call of the denoiser is held, and
the one whose states equal the conditional `encoder_hidden_states` is the prompts' (the first of them, if
prompts and negative prompts are the same).
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from hooks.architectures.site import Site, module_at, tensor_of
from hooks.architectures.text_encoders import text_core
from hooks.attach import attach_reader
from hooks.errors import HookError
from hooks.similarity import end_of_text

MAX_RUNS = 8  # held while waiting for the denoiser; a pipeline needs two


@dataclass
class TextRun:
    """States of one run: `states[0]` is the embeddings, `states[k + 1]` the output of layer k."""

    ids: Tensor | None = None
    states: list[Tensor] = field(default_factory=list)
    final: Tensor | None = None  # after the final layer norm
    normed: Tensor | None = None  # all states after the final layer norm: (1 + layers, rows, tokens, width)
    inside: dict[str, Tensor] = field(default_factory=dict)  # of the sites within layers, by address

    def gives(self, conditional: Tensor) -> bool:
        """Return whether some state of this run, as it is or normed, is what the denoiser is given.

        Parameters
        ----------
        conditional : Tensor, shape (rows, tokens, width)
        """
        candidates = [self.final, *reversed(self.states), *reversed(self.normed)]
        return any(
            state.shape == conditional.shape and torch.equal(state.to(conditional), conditional)
            for state in candidates
            if state is not None
        )


class TextReader:
    """Hooks on one text encoder.

    Parameters
    ----------
    pipe
        The pipeline.
    name, part : str
        Prefix of the addresses ("text") and attribute of the pipeline ("text_encoder").
    inside : collection of Site
        Sites within the layers to read too.
    """

    def __init__(self, pipe: Any, name: str, part: str, inside: Collection[Site] = ()) -> None:
        self.name = name
        self._inside = [(site, module_at(pipe, site.module)) for site in inside]
        self.encoder = getattr(pipe, part)
        self.core = module_at(pipe, text_core(pipe, part))
        self.runs: deque[TextRun] = deque(maxlen=MAX_RUNS)
        self._current: TextRun | None = None

    def attach(self, stack: contextlib.ExitStack) -> None:
        """Hook the encoder and what is read inside it; closing the stack takes the hooks off."""

        def add(handle: Any) -> None:
            stack.callback(handle.remove)

        add(self.encoder.register_forward_pre_hook(self._begin))
        add(self.core.embeddings.register_forward_hook(self._on_embeddings, with_kwargs=True))
        for layer in self.core.encoder.layers:
            add(layer.register_forward_hook(self._on_layer))
        for site, module in self._inside:
            add(attach_reader(module, site, self._on_inside(site)))
        add(self.core.final_layer_norm.register_forward_hook(self._on_final))
        add(self.encoder.register_forward_hook(self._end))

    def select(self, conditional: Tensor) -> TextRun | None:
        """The first held run that gave `conditional` (rows, tokens, width of the denoiser), or None.

        Rows may repeat each prompt (`num_images_per_prompt`); the width may join several encoders'.
        """
        for run in self.runs:
            prompts = run.states[0].shape[0]
            if conditional.shape[0] % prompts:
                continue
            once_each = conditional[:: conditional.shape[0] // prompts]
            width = run.states[0].shape[-1]
            # SDXL joins the first encoder's states and the second's, in this order
            slices = {0: once_each[..., :width], 1: once_each[..., -width:]}
            if run.gives(slices[1 if self.name == "text_2" else 0]):
                return run
        return None

    def end_of_text(self, run: TextRun) -> Tensor:
        """Position of the end-of-text token in each prompt of a run, shape (prompts,)."""
        config = self.core.config if hasattr(self.core, "config") else self.encoder.config
        return end_of_text(run.ids, getattr(config, "eos_token_id", None))

    def _begin(self, module: Any, args: Any) -> None:
        self._current = TextRun()

    def _on_embeddings(self, module: Any, args: Any, kwargs: dict[str, Any], output: Any) -> None:
        if self._current is not None:
            self._current.ids = args[0] if args else kwargs.get("input_ids")
            self._current.states.append(tensor_of(output))

    def _on_layer(self, module: Any, args: Any, output: Any) -> None:
        if self._current is not None:
            self._current.states.append(tensor_of(output))

    def _on_inside(self, site: Site) -> Callable[[Tensor], None]:
        def keep(values: Tensor) -> None:
            if self._current is not None:
                self._current.inside[site.address] = values

        return keep

    def _on_final(self, module: Any, args: Any, output: Tensor) -> None:
        if self._current is not None:
            self._current.final = output

    @torch.no_grad()
    def _end(self, module: Any, args: Any, output: Any) -> None:
        run, self._current = self._current, None
        if run is not None and run.states:
            # `.forward`: no hook fires (ours, a nested probe's), but an offloading wrapper does its work
            run.normed = self.core.final_layer_norm.forward(torch.stack(run.states))
            self.runs.append(run)


@dataclass(frozen=True)
class TextStates:
    """Activations of one text site for the prompts.

    Attributes
    ----------
    site : Site
    raw, normed : Tensor, shape (rows, tokens, width)
        Before and after the final layer norm; the same where it does not belong to the site: at `text.final`,
        which the norm has been applied to or not as the pipeline sees fit, and within layers. Per-head sites have
        (rows, tokens, heads, d).
    ends : Tensor of int64, shape (rows,), or None
        Position of the end-of-text token; None if the text is not known.
    repeats : int
        Images per row.
    """

    site: Site
    raw: Tensor
    normed: Tensor
    ends: Tensor | None
    repeats: int


def select_runs(readers: Sequence[TextReader], final: Tensor) -> dict[str, tuple[TextReader, TextRun | None]]:
    """By name of the encoder, its reader and the run that the denoiser is conditioned on, if there was one.

    Parameters
    ----------
    readers : sequence of TextReader
    final : Tensor, shape (images, tokens, width)
        The conditional `encoder_hidden_states`.
    """
    return {reader.name: (reader, reader.select(final)) for reader in readers}


def conditional_states(
    runs: Mapping[str, tuple[TextReader, TextRun | None]], final: Tensor, wanted: Mapping[str, Site]
) -> Iterator[TextStates]:
    """The wanted text sites of the runs that the denoiser is conditioned on.

    Parameters
    ----------
    runs : mapping
        As `select_runs` gives it.
    final : Tensor, shape (images, tokens, width)
        The conditional `encoder_hidden_states`.
    wanted : mapping of str to Site
        By address.

    Raises
    ------
    HookError
        If a layer is wanted whose encoder did not give `final`.
    """
    ends_of_images = None
    for name, (reader, run) in runs.items():
        layers = [a for a in wanted if a.startswith((f"{name}.embeddings", f"{name}.layers."))]
        if run is None:
            if layers:
                encoder = name.replace("text", "text_encoder")
                raise HookError(
                    f"{layers[0]}: no run of {encoder} in this block gave the denoiser its encoder_hidden_states "
                    "(were prompt_embeds passed in?): pass prompts, or leave these sites out"
                )
            continue
        repeats = final.shape[0] // run.states[0].shape[0]
        ends = reader.end_of_text(run)
        if ends_of_images is None:
            ends_of_images = ends.repeat_interleave(repeats)
        streams = [f"{name}.embeddings", *(f"{name}.layers.{k}" for k in range(len(run.states) - 1))]
        for address, raw, normed in zip(streams, run.states, run.normed):
            if address in wanted:
                site = wanted[address]
                yield TextStates(site, raw, normed if site.layer_norm else raw, ends, repeats)
        for address, values in run.inside.items():
            yield TextStates(wanted[address], values, values, ends, repeats)
    if "text.final" in wanted:
        yield TextStates(wanted["text.final"], final, final, ends_of_images, 1)
