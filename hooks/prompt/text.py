"""Runs of a text encoder, and which of them the denoiser is conditioned on.

A pipeline runs its text encoder once for the prompts and, under guidance, once more for the negative prompts; nothing
in the encoder tells the two apart. So every run before the first call of the denoiser is held, and the one whose states
equal the conditional `encoder_hidden_states` is the prompts' (the first of them, if prompts and negative prompts are
the same). By the same equality each token of the denoiser's text is known to be which token of which encoder, whatever
templates, selections, padding or other encoders' tokens stand around it.

What is compared are numbers that stand for the states, so that a GPU is read twice in a block, however many encoders,
layers and images there are: eight bytes of every state, then hashes of the few that may be the denoiser's.
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
from hooks.tensors import to_cpu

MAX_RUNS = 16  # held while waiting for the denoiser: a pipeline needs two


@dataclass
class TextRun:
    """States of one run of a text encoder: `states[0]` are the embeddings, `states[k + 1]` the output of layer k.

    `ids` and `mask` are on the CPU once `match_runs` has read them. `places`, shape (rows, positions of the denoiser's
    text), is the number of this run's token at each position, -1 for none; None if the denoiser is given this run's
    pooled vector alone, or before it is known.
    """

    ids: Tensor | None = None
    mask: Tensor | None = None
    states: list[Tensor] = field(default_factory=list)
    final: Tensor | None = None  # after the final norm
    normed: list[Tensor] = field(default_factory=list)  # all states after the final norm
    pooled: Tensor | None = None  # (rows, width)
    inside: dict[str, Tensor] = field(default_factory=dict)  # of the sites within layers, by address
    places: Tensor | None = None

    def move_padding_back(self, token: int) -> None:
        """Move the padding, `token`, from before each text to its end: positions count from the text's start."""
        tokens = torch.arange(self.ids.shape[1], device=self.ids.device)
        start = (self.ids != token).int().argmax(1, keepdim=True)
        order = (tokens + start) % len(tokens)

        def moved(values: Tensor) -> Tensor:
            """Return values (rows, tokens, ...) in the new order."""
            return values[torch.arange(len(values), device=values.device)[:, None], order.to(values.device)]

        self.mask = (tokens < len(tokens) - start).to(self.ids) if self.mask is None else moved(self.mask)
        self.ids = moved(self.ids)
        self.states, self.final = (
            [*map(moved, self.states)],
            None if self.final is None else moved(self.final),
        )
        self.inside = {address: moved(values) for address, values in self.inside.items()}

    def possible_texts(self) -> list[Tensor]:
        """Return the states, normed or not, that a pipeline may give the denoiser, the likeliest first."""
        final = [] if self.final is None else [self.final]
        return [*final, *reversed(self.states), *reversed(self.normed)]


def matched_tokens(states: Tensor, conditional: Tensor) -> Tensor | None:
    """Return the number of the encoder's token at each position of the denoiser's text, (rows, positions), or None.

    Both have rows of integers that stand for the state of a token, 0 for zeros, which are padding. -1 at positions
    without a state of the run. None unless in every row all positions but padding are matched, or all tokens are. Of
    tokens with equal states the one after the previous token is taken.

    >>> states = torch.tensor([[10, 20, 30, 40]])
    >>> matched_tokens(states, torch.tensor([[30, 40, 0]]))
    tensor([[ 2,  3, -1]])
    >>> matched_tokens(states, torch.tensor([[30, 50, 0]])) is None
    True
    """
    if torch.equal(states, conditional):
        return torch.arange(states.shape[1]).expand(len(states), -1)
    matched = []
    for tokens, positions in zip(states.tolist(), conditional.tolist(), strict=True):
        places: dict[int, list[int]] = {}
        for index, key in enumerate(tokens):
            places.setdefault(key, []).append(index)
        row, before = [], -1
        for key in positions:
            candidates = places.get(key, [-1])
            before = before + 1 if before + 1 in candidates else candidates[0]
            row.append(before if key else -1)
        if row.count(-1) > positions.count(0) and len({*row} - {-1}) < len(tokens):
            return None
        matched.append(row)
    return torch.tensor(matched)


def _first_bytes(states: Tensor) -> Tensor:
    """Return the first eight bytes of each state of (..., width) as an integer."""
    return states[..., : 8 // states.itemsize].contiguous().view(torch.int64)[..., 0]


def _hashes(states: Tensor) -> Tensor:
    """Return an integer for each state of (..., width): of all its bytes, weighted by odd numbers, modulo 2^64.

    States that differ in one word of eight bytes have others for certain.
    """
    words = states.contiguous().view(torch.int64)
    return (words * torch.arange(1, 2 * words.shape[-1], 2, device=words.device) ** 3).sum(-1)


def _with_edges(states: Tensor, given: Tensor, filled: Tensor) -> list[int]:
    """Return which of `states` (n, rows, tokens) have the first or last filled position of `given` in every row."""
    last = filled * torch.arange(1, filled.shape[1] + 1)
    edges = given.gather(1, torch.stack((filled.argmax(1), last.argmax(1)), 1))
    has_edge = (states[..., None] == edges[:, None]).any(3).any(2).all(1)
    return has_edge.nonzero().flatten().tolist() if filled.any(1).all() else []


class TextReader:
    """Hooks on a text encoder, an attribute of the pipeline, and on sites within its layers; holds its runs."""

    def __init__(self, pipe: Any, name: str, attribute: str, layer_sites: Collection[Site] = ()) -> None:
        """Look up the modules of the text encoder `name`, `pipe.<attribute>`, that `attach` hooks."""
        self.name = name
        self._pipe, self._layer_sites = pipe, layer_sites
        self.encoder = getattr(pipe, attribute)
        core = text_core(pipe, attribute)
        assert core is not None
        self._embeddings, self._layers = module_at(pipe, core.embeddings), module_at(pipe, core.layers)
        self._norm = module_at(pipe, core.norm) if core.norm else torch.nn.Identity()
        self._ends = core.ends
        # channels of the text encoders before this one
        others = itertools.takewhile(lambda other: other != name, text_cores(pipe))
        self._before = sum(text_config(getattr(pipe, TEXT_ENCODERS[other])).hidden_size for other in others)
        # of the tokenizer: configurations from before transformers 4.31 have a wrong one (2)
        self._tokenizer = getattr(pipe, TOKENIZERS[name], None)
        self._eos = getattr(self._tokenizer, "eos_token_id", None)
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

    def spans(self, width: int) -> list[tuple[int, int]]:
        """Return the channels (start, stop) of the denoiser's text, `width` of them, that may be this encoder's."""
        size = text_config(self.encoder).hidden_size
        # the states of SDXL's and SD3's encoders of CLIP are joined in this order; T5's follow with their channels
        return [(begin, begin + size) for begin in dict.fromkeys((self._before, 0)) if begin + size <= width]

    def end_of_text(self, run: TextRun) -> Tensor | None:
        """Return the position (prompts,) of the token that stands for each prompt's whole text; None if unknown.

        That is the first end-of-text token of the tokenizer or, of an encoder that is given a template behind the
        prompt, the last token.
        """
        ids = run.ids
        read = torch.ones_like(ids) if run.mask is None else run.mask.to(ids)
        last = (read * torch.arange(1, ids.shape[1] + 1)).argmax(-1)
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
            if getattr(self._tokenizer, "padding_side", "right") == "left" and run.ids is not None:
                run.move_padding_back(self._tokenizer.pad_token_id)
            # `.forward`: no hook fires (ours, a nested probe's), but an offloading wrapper does its work
            run.normed = [*self._norm.forward(torch.stack(run.states))]
            pooled = getattr(output, "text_embeds", None)
            run.pooled = getattr(output, "pooler_output", None) if pooled is None else pooled
            self.runs.append(run)


def match_runs(
    readers: Sequence[TextReader], text: Tensor, pooled: Tensor | None = None
) -> tuple[dict[str, TextRun | None], Tensor]:
    """Return the run of each encoder, by its name, that gave the denoiser its `text`, and which positions are filled.

    The first run with these states, else the first with the vectors `pooled`, else None. Rows may repeat each prompt
    (`num_images_per_prompt`); the width may join several encoders', and positions of several may follow one another. A
    run that gave `text` then knows its places.
    """
    runs = [(reader, run) for reader in readers for run in reader.runs]
    parts = {span: text[..., slice(*span)] for reader in readers for span in reader.spans(text.shape[-1])}
    asked = {span: torch.stack((_first_bytes(part), part.any(-1))) for span, part in parts.items()}
    asked["filled"] = text.any(-1)
    for number, (_, run) in enumerate(runs):
        few = torch.cat([state[..., : 8 // text.itemsize] for state in run.possible_texts()]).to(text.dtype)
        asked[number] = _first_bytes(few).unflatten(0, (-1, len(run.states[0])))
        for name in ("ids", "mask"):
            if getattr(run, name) is not None:
                asked[number, name] = getattr(run, name).long()
    read = dict(zip(asked, to_cpu([*asked.values()])))
    is_filled, candidates = read["filled"].bool(), []
    asked = {span: _hashes(part) * part.any(-1) for span, part in parts.items()}
    for number, (reader, run) in enumerate(runs):
        run.ids, run.mask, run.places = read.get((number, "ids")), read.get((number, "mask")), None
        images, rest = divmod(len(text), len(run.states[0]))
        for span in () if rest else reader.spans(text.shape[-1]):
            for state in _with_edges(read[number], *read[span][:, ::images]):
                candidates.append((reader.name, run, span, (number, state)))
                asked[number, state] = _hashes(run.possible_texts()[state].to(text.dtype))
        if pooled is not None and run.pooled is not None and run.pooled.shape[-1] <= pooled.shape[-1]:
            width = run.pooled.shape[-1]
            vectors = run.pooled.to(pooled), pooled[:, :width], pooled[:, -width:]
            asked[number, "pooled"] = _hashes(torch.cat(vectors))
    read, matched = dict(zip(asked, to_cpu([*asked.values()]))), {reader.name: None for reader in readers}
    for name, run, span, state in candidates:
        if matched[name] is None:
            tokens = read[state].repeat_interleave(len(text) // len(run.states[0]), 0)
            run.places = matched_tokens(tokens, read[span])
            matched[name] = None if run.places is None else run
    for number, (reader, run) in enumerate(runs):
        if matched[reader.name] is None and (number, "pooled") in read:
            vectors, begin, end = read[number, "pooled"].split((len(run.pooled), len(pooled), len(pooled)))
            vectors = vectors.repeat_interleave(len(pooled) // len(vectors))
            if torch.equal(vectors, begin) or torch.equal(vectors, end):
                matched[reader.name] = run
    return matched, is_filled


def select_runs(
    readers: Sequence[TextReader], final: Tensor, pooled: Tensor | None = None
) -> dict[str, tuple[TextReader, TextRun | None]]:
    """Return, by encoder, its reader and the run of it that gave the denoiser its text `final` (None if no run did).

    None for all if the denoiser's text has states of no run, as when a prompt is read in parts.
    """
    matched, filled = match_runs(readers, final, pooled)
    places = [run.places for run in matched.values() if run is not None and run.places is not None]
    if places and bool((filled & (torch.stack(places) < 0).all(0)).any()):
        matched = dict.fromkeys(matched)
    return {reader.name: (reader, matched[reader.name]) for reader in readers}


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
            places[name] = run.places
            if ends_of_images is None and ends is not None:
                ends_of_images = _end_positions(run.places, ends.repeat_interleave(repeats))
        streams = [f"{name}.embeddings", *(f"{name}.layers.{k}" for k in range(len(run.states) - 1))]
        texts = [
            (wanted[address], raw, normed if wanted[address].layer_norm else raw)
            for address, raw, normed in zip(streams, run.states, run.normed)
            if address in wanted
        ]
        texts += [(wanted[address], values, values) for address, values in run.inside.items()]
        record(texts, ends, repeats)
    if "text.final" in wanted:
        record([(wanted["text.final"], final, final)], ends_of_images, 1, places)


def _end_positions(places: Tensor, ends: Tensor) -> Tensor:
    """Return the position (rows,) in the denoiser's text of each encoder position `ends`, or of the last token."""
    is_end = places == ends[:, None]
    last = (places >= 0).int() * torch.arange(1, places.shape[1] + 1)
    return torch.where(is_end.any(-1), is_end.int().argmax(-1), last.argmax(-1))
