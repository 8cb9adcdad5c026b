"""Runs of a text encoder, and which of them the denoiser is conditioned on.

A pipeline runs its text encoder once for the prompts and, under guidance, once more for the negative prompts; nothing
in the encoder tells the two apart. So every run before the first call of the denoiser is held, and the one whose states
equal the conditional `encoder_hidden_states` is the prompts' (the first of them, if prompts and negative prompts are
the same). By the same equality each token of the denoiser's text is known to be which token of which encoder, whatever
templates, selections, padding or other encoders' tokens stand around it.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from hooks.architectures.site import Site, module_at, tensor_of
from hooks.architectures.text_encoders import TEXT_ENCODERS, TOKENIZERS, text_config, text_core, text_cores
from hooks.errors import HookError

MAX_RUNS = 16  # held while waiting for the denoiser: a pipeline needs two


@dataclass
class TextRun:
    """States of one run of a text encoder: `states[0]` are the embeddings, `states[k + 1]` the output of layer k.

    `places`, shape (prompts, positions of the denoiser's text), is the number of this run's token at each position,
    -1 for none; None if the denoiser is given this run's pooled vector alone, or before it is known.
    """

    ids: Tensor | None = None
    mask: Tensor | None = None
    states: list[Tensor] = field(default_factory=list)
    final: Tensor | None = None  # after the final norm
    normed: list[Tensor] = field(default_factory=list)  # all states after the final norm
    pooled: Tensor | None = None  # (rows, width)
    inside: dict[str, Tensor] = field(default_factory=dict)  # of the sites within layers, by address
    places: Tensor | None = None

    def token_numbers(self, conditional: Tensor) -> Tensor | None:
        """Return the number of the run's token at each position of `conditional`, the denoiser's text, or None.

        Shape (rows, positions), -1 for no token. Some state of the run, normed or not, must contain all of
        `conditional` or be contained in it whole; positions of zeros are padding.
        """
        for state in (self.final, *reversed(self.states), *reversed(self.normed)):
            if state is None:
                continue
            if state.shape == conditional.shape and torch.equal(state.to(conditional), conditional):
                return torch.arange(state.shape[1]).expand(len(state), -1)
            if (numbers := matched_tokens(state.to(conditional), conditional)) is not None:
                return numbers
        return None

    def matches_pooled(self, pooled: Tensor) -> bool:
        """Return whether the denoiser's pooled text vectors (rows, width) begin or end with those of this run."""
        if self.pooled is None or self.pooled.shape[-1] > pooled.shape[-1]:
            return False
        run_pooled, width = self.pooled.to(pooled), self.pooled.shape[-1]
        return torch.equal(run_pooled, pooled[:, :width]) or torch.equal(run_pooled, pooled[:, -width:])

    def one_row_per_prompt(self, values: Tensor) -> Tensor | None:
        """Return `values` (one row per image) with one row per prompt; None if rows of one prompt differ."""
        prompts = self.states[0].shape[0]
        if values.shape[0] % prompts:
            return None
        by_prompt = values.unflatten(0, (prompts, -1))
        return by_prompt[:, 0] if torch.equal(by_prompt, by_prompt[:, :1].expand_as(by_prompt)) else None


def matched_tokens(states: Tensor, conditional: Tensor) -> Tensor | None:
    """Return the number of the encoder's token at each position of the denoiser's text, (rows, positions), or None.

    -1 at positions without a state of the run; a position of zeros is padding. None unless in every row all positions
    but padding are matched, or all tokens are. Of tokens with equal states the one after the previous token is taken.

    >>> states = torch.tensor([[[1.0], [2.0], [3.0], [4.0]]])
    >>> matched_tokens(states, torch.tensor([[[3.0], [4.0], [0.0]]]))
    tensor([[ 2,  3, -1]])
    >>> matched_tokens(states, torch.tensor([[[3.0], [5.0], [0.0]]])) is None
    True
    """
    matched = []
    for tokens, positions in zip(states, conditional, strict=True):
        filled = positions.ne(0).any(-1).tolist()
        if True not in filled:
            return None
        edges = positions[[filled.index(True), -1 - filled[::-1].index(True)]]
        if not bool((tokens[None] == edges[:, None]).all(-1).any()):  # before every state is read
            return None
        places: dict[bytes, list[int]] = {}
        for index, key in enumerate(_row_bytes(tokens)):
            places.setdefault(key, []).append(index)
        row, before = [], -1
        for key, is_filled in zip(_row_bytes(positions), filled):
            candidates = places.get(key, [-1])
            before = before + 1 if before + 1 in candidates else candidates[0]
            row.append(before if is_filled else -1)
        if row.count(-1) > filled.count(False) and len({*row} - {-1}) < len(tokens):
            return None
        matched.append(torch.tensor(row))
    return torch.stack(matched)


def _row_bytes(states: Tensor) -> list[bytes]:
    """Return the state of each token, of (tokens, width), as bytes, so that equal states can be looked up."""
    return [row.tobytes() for row in states.detach().contiguous().view(torch.uint8).cpu().numpy()]


class TextReader:
    """Hooks on a text encoder, an attribute of the pipeline, and on sites within its layers; holds its runs."""

    def __init__(self, pipe: Any, name: str, attribute: str, layer_sites: Collection[Site] = ()) -> None:
        """Look up the modules of the text encoder `name`, `pipe.<attribute>`, that `attach` hooks."""
        self.name = name
        self._pipe, self._layer_sites = pipe, layer_sites
        self.encoder = getattr(pipe, attribute)
        core = text_core(pipe, attribute)
        assert core is not None
        self._embeddings, self._layers, self._norm = (
            module_at(pipe, path) for path in (core.embeddings, core.layers, core.norm)
        )
        self._ends = core.ends
        # channels of the text encoders before this one
        others = itertools.takewhile(lambda other: other != name, text_cores(pipe))
        self._before = sum(text_config(getattr(pipe, TEXT_ENCODERS[other])).hidden_size for other in others)
        # of the tokenizer: configurations from before transformers 4.31 have a wrong one (2)
        self._eos = getattr(getattr(pipe, TOKENIZERS[name], None), "eos_token_id", None)
        self.runs: deque[TextRun] = deque(maxlen=MAX_RUNS)
        self._current: TextRun | None = None

    def attach(self, stack: contextlib.ExitStack) -> None:
        """Hook the encoder, its embeddings, layers and final norm; closing `stack` removes the hooks."""
        hooks = [
            self.encoder.register_forward_pre_hook(self._start_run, with_kwargs=True),
            self._embeddings.register_forward_pre_hook(self._store_ids, with_kwargs=True),
            *(
                module.register_forward_hook(functools.partial(self._store_values, "states"))
                for module in (self._embeddings, *self._layers)
            ),
            *(
                site.attach_reader(self._pipe, functools.partial(self._store_values, site.address))
                for site in self._layer_sites
            ),
            self._norm.register_forward_hook(functools.partial(self._store_values, "final")),
            self.encoder.register_forward_hook(self._finish_run),
        ]
        for handle in hooks:
            stack.callback(handle.remove)

    def select(self, conditional: Tensor, pooled: Tensor | None = None) -> TextRun | None:
        """Return the first run with the states `conditional`, else the first with the vectors `pooled`, else None.

        Rows may repeat each prompt (`num_images_per_prompt`); the width may join several encoders', and positions of
        several may follow one another. A run that gave `conditional` then knows its places.
        """
        width = text_config(self.encoder).hidden_size
        # the states of SDXL's and SD3's encoders of CLIP are joined in this order; T5's follow with channels of their
        # own
        begins = [
            begin for begin in dict.fromkeys((self._before, 0)) if begin + width <= conditional.shape[-1]
        ]
        for run in self.runs:
            if (values := run.one_row_per_prompt(conditional)) is not None:
                places = (run.token_numbers(values[..., begin : begin + width]) for begin in begins)
                run.places = next((numbers for numbers in places if numbers is not None), None)
                if run.places is not None:
                    return run
        for run in self.runs if pooled is not None else ():
            if (values := run.one_row_per_prompt(pooled)) is not None and run.matches_pooled(values):
                return run
        return None

    def end_of_text(self, run: TextRun) -> Tensor | None:
        """Return the position (prompts,) of the token that stands for each prompt's whole text; None if unknown.

        That is the first end-of-text token of the tokenizer or, of an encoder that is given a template behind the
        prompt, the last token.
        """
        ids = run.ids
        read = torch.ones_like(ids) if run.mask is None else run.mask.to(ids)
        last = (read * torch.arange(1, ids.shape[1] + 1, device=ids.device)).argmax(-1)
        if self._ends == "last":
            return last
        if self._eos is None:
            return None
        is_end = (ids == self._eos) & read.bool()
        return torch.where(is_end.any(-1), is_end.int().argmax(-1), last)

    def _start_run(self, module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        """Forward pre-hook of the encoder: start a `TextRun` with the attention mask that the encoder is given."""
        mask = kwargs.get("attention_mask", args[1] if len(args) > 1 else None)
        self._current = TextRun(mask=mask if isinstance(mask, Tensor) and mask.ndim == 2 else None)

    def _store_ids(self, module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        """Forward pre-hook of the embeddings: store the token ids in the current run."""
        if self._current is not None:
            self._current.ids = args[0] if args else kwargs.get("input_ids")

    def _store_values(self, name: str, *arguments: Any) -> None:
        """Forward hook: store a module's output, the last of `arguments`, in the current run under `name`."""
        run, values = self._current, tensor_of(arguments[-1])
        if run is not None and name == "states":
            run.states.append(values)
        elif run is not None and name == "final":
            run.final = values
        elif run is not None:
            run.inside[name] = values

    @torch.no_grad()
    def _finish_run(self, module: Any, args: Any, output: Any) -> None:
        """Forward hook of the encoder: complete the run with normed states and pooled vectors, and add it to `runs`."""
        run, self._current = self._current, None
        if run is not None and run.states:
            # `.forward`: no hook fires (ours, a nested probe's), but an offloading wrapper does its work
            run.normed = [*self._norm.forward(torch.stack(run.states))]
            pooled = getattr(output, "text_embeds", None)
            run.pooled = getattr(output, "pooler_output", None) if pooled is None else pooled
            self.runs.append(run)


def select_runs(
    readers: Sequence[TextReader], final: Tensor, pooled: Tensor | None = None
) -> dict[str, tuple[TextReader, TextRun | None]]:
    """Return, by encoder, its reader and the run of it that gave the denoiser its text `final` (None if no run did).

    None for all if the denoiser's text has states of no run, as when a prompt is read in parts.
    """
    runs = {reader.name: (reader, reader.select(final, pooled)) for reader in readers}
    places = [run.places for _, run in runs.values() if run is not None and run.places is not None]
    if places:
        by_image = [(rows >= 0).repeat_interleave(len(final) // len(rows), 0) for rows in places]
        taken = torch.stack(by_image).any(0)
        if bool(final.masked_fill(taken.to(final.device)[..., None], 0).any()):
            return {name: (reader, None) for name, (reader, _) in runs.items()}
    return runs


def record_states(
    runs: Mapping[str, tuple[TextReader, TextRun | None]],
    final: Tensor,
    wanted: Mapping[str, Site],
    record: Callable[..., None],
) -> None:
    """Call `record` (`Recorder.record_text`) for each wanted text site with its activations in the encoders' `runs`.

    HookError for a wanted layer whose encoder did not give `final`, the conditional `encoder_hidden_states`.
    """
    ends_of_images, places = None, {}
    for name, (reader, run) in runs.items():
        layers = [a for a in wanted if a.startswith((f"{name}.embeddings", f"{name}.layers."))]
        if run is None:
            if layers:
                encoder = name.replace("text", "text_encoder")
                raise HookError(
                    f"{layers[0]}: no run of {encoder} in this block gave the denoiser its encoder_hidden_states "
                    "(were prompt_embeds passed in, or put together?): pass prompts, or leave these sites out"
                )
            continue
        repeats = final.shape[0] // run.states[0].shape[0]
        ends = reader.end_of_text(run)
        if run.places is not None:
            places[name] = run.places.repeat_interleave(repeats, 0)
            if ends_of_images is None and ends is not None:
                ends_of_images = _end_positions(run.places, ends).repeat_interleave(repeats)
        streams = [f"{name}.embeddings", *(f"{name}.layers.{k}" for k in range(len(run.states) - 1))]
        for address, raw, normed in zip(streams, run.states, run.normed):
            if address in wanted:
                site = wanted[address]
                record(site, raw, normed if site.layer_norm else raw, ends, repeats)
        for address, values in run.inside.items():
            record(wanted[address], values, values, ends, repeats)
    if "text.final" in wanted:
        record(wanted["text.final"], final, final, ends_of_images, 1, places)


def _end_positions(places: Tensor, ends: Tensor) -> Tensor:
    """Return the position (prompts,) in the denoiser's text of each encoder position `ends`, or of the last token."""
    is_end = places == ends.to(places)[:, None]
    last = (places >= 0).int() * torch.arange(1, places.shape[1] + 1)
    return torch.where(is_end.any(-1), is_end.int().argmax(-1), last.argmax(-1)).to(ends.device)
