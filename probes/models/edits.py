r"""Edits of a loaded pipeline: keys and values of cross-attentions in closed form, directions taken out or added.

    from probes.models import edits
    from probes.models.loading import load, resolve

    pipe = load(resolve("toyworld")).pipe
    edit = edits.Edit(words={"person": {"woman": 0.2}}, keep=["woman", "man"])
    with edits.apply(pipe, edit) as edited:
        images = pipe("a person with a dog").images
    edited.record["left_over_held_out"]  # what is left of the edit in a context that it was not solved from

The same options stand under ``edit:`` in ``triplets.yaml``, where they alter what is drawn
(`probes.config.generation`).

The closed form (Orgad et al. 2023; Gandikota et al. 2024) is the matrix :math:`W^*` that minimises

.. math:: \sum_i \|W^* c_i - W t_i\|^2 + \rho \sum_j \|W^* k_j - W k_j\|^2 + \lambda \|W^* - W\|_F^2

over the states :math:`c_i` of the words that are edited, their targets :math:`t_i` and the states :math:`k_j` that are
kept: UCE's Eq. 7 where :math:`\lambda \to 0`, TIME's Eq. 4 where there is no :math:`k_j`. All targets are what the old
matrix makes of a text state, so that

.. math:: W^* = W X, \quad X = \Big(\sum_i t_i c_i^T + \rho \sum_j k_j k_j^T + \lambda I\Big)
          \Big(\sum_i c_i c_i^T + \rho \sum_j k_j k_j^T + \lambda I\Big)^{-1}

with the same :math:`X` for the keys and values of every cross-attention: the edit is a linear map of what they read.

:math:`\lambda` is the edit's ``ridge`` times the mean eigenvalue of :math:`\sum_i c_i c_i^T + \rho \sum_j k_j k_j^T`,
so that a ridge means the same whatever the length of a model's states and however many contexts there are. Most
eigenvalues lie far below their mean (states of one word differ little), and a ridge far below it leaves the map free
along directions that other captions do use: it then fits the contexts nearly without error, and moves what stands in no
context. What it does there, ``left_over_held_out`` estimates.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hooks import sites as site_table
from hooks.architectures.text_encoders import prompt_tokens
from hooks.errors import HookError
from hooks.prompt.spans import encode, token_positions
from hooks.prompt.wordlist import tokenizer_of
from hooks.sites import Site, module_at
from probes.config.generation import Edit as Edit
from probes.errors import UserError
from probes.models.weights import deterministic
from probes.prompts.prompt import fill_person
from probes.prompts.sample import tokenize

FINAL = "text.final"
BATCH = 16  # texts encoded at once: always so many, so that the same edit has the same bits


Rows = list[tuple[int, Tensor, Tensor]]  # the number of a context, states in it, what they are to become


class FilledContexts(NamedTuple):
    """The contexts (prompts) of an edit filled with one word, and the position of that word's last token in each."""

    texts: list[str]
    last: list[int]


Fillings = Mapping[str, FilledContexts]  # by word


class Edited(contextlib.ExitStack):
    """An edit applied to a pipeline by `apply`; it lasts until `undo` is called or its ``with`` block ends.

    ``record`` has ``edit`` (its options), ``sites`` (addresses that are edited), ``relative_change`` (by address of
    keys or values the Frobenius norm of the change over that of the weights), and of ``keys_and_values`` how far it
    falls short of its goal: ``left_over`` in its own contexts, and ``left_over_held_out`` in each context by the edit
    that is solved from the others. Of both, ``edited`` is the squared distance of the edited states from their targets
    after the edit, over that before it, and ``kept`` the squared change of the kept states over their squared length;
    None where there are none. ``edited`` above 1, held out: in a new context the edited states are farther from their
    targets than without the edit.
    """

    def __init__(self, pipe: Any, edit: Edit) -> None:
        """Start the record of an edit; `apply` makes its changes by the methods below."""
        super().__init__()
        self.record: dict[str, Any] = {
            "edit": edit.model_dump(mode="json"),
            "sites": [],
            "relative_change": {},
        }
        self._pipe = pipe
        self._written: list[bytes] = []  # what identifies each hook

    def undo(self) -> None:
        """Restore every weight bit for bit and remove the hooks; of several edits, undo the last one first."""
        self.close()

    def model_hash(self, weight_hash: str) -> str:
        """Return the hash of the edited model: `weight_hash`, that of its weights, hashed with its hooks, if any."""
        if not self._written:
            return weight_hash
        written = hashlib.sha256(b"".join(self._written)).hexdigest()
        return hashlib.sha256(f"{weight_hash} {written}".encode()).hexdigest()

    def map_weights(self, address: str, change: Callable[[Tensor], Tensor]) -> None:
        """Apply `change` to the weights of keys or values at an address, as float64 (width, text width), in place."""
        module, rows = self._key_value_weights(address)
        weight = module.weight.data
        self.callback(weight.copy_, weight.clone())
        view = rows(weight)
        before = view.cpu().double()
        after = change(before)
        view.copy_(after.to(view))
        if not torch.isfinite(view).all():
            raise UserError(
                f"edit: expected finite weights in {view.dtype}, got NaN or infinity at {address}:"
                " use --dtype float32, or a smaller edit"
            )
        self.record["relative_change"][address] = float((after - before).norm() / before.norm())

    def add_bias(self, address: str, bias: Callable[[Tensor], Tensor]) -> None:
        """Add a vector to the keys or values at an address; `bias` computes it from their float64 weights."""
        module, rows = self._key_value_weights(address)
        if module.bias is None:
            module.bias = torch.nn.Parameter(torch.zeros_like(module.weight[:, 0]), requires_grad=False)
            self.callback(setattr, module, "bias", None)
        else:
            self.callback(module.bias.data.copy_, module.bias.detach().clone())
        view = rows(module.bias.data)
        view += bias(rows(module.weight.data).cpu().double()).to(view)

    def _key_value_weights(self, address: str) -> tuple[Any, Callable[[Tensor], Tensor]]:
        """Return the layer that computes keys or values (or both), and a function that takes their rows of a tensor."""
        (site,) = site_table.resolve(self._pipe, address)
        self.record["sites"].append(address)
        index, count = site.part or (0, 1)
        return module_at(self._pipe, site.module), lambda tensor: tensor.chunk(count, dim=0)[index]

    def write_at_site(self, site: Site, change: Callable[[Tensor], Tensor], identity: Tensor) -> None:
        """Hook a text encoder to apply `change` to activations at `site`; `identity` is the tensor that defines it."""
        self.callback(site.attach_writer(self._pipe, change).remove)
        self._written.append(site.address.encode() + identity.double().numpy().tobytes())
        self.record["sites"].append(site.address)


def apply(pipe: Any, edit: Edit) -> Edited:
    """Apply an edit to a pipeline of Stable Diffusion 1, 2 or XL, in place; XL's pooled text embedding is unchanged.

    A `UserError` says what cannot be edited: a site, a word that the tokenizer cannot spell, or weights that would not
    be finite in the model's number format.
    """
    attentions, text_sites, final = _edited_sites(pipe, edit)
    tokenizers = (tokenizer_of(pipe, name) for name in ("text", "text_2"))
    texts = _fill_contexts(edit, [one for one in tokenizers if one is not None], prompt_tokens(pipe))
    edited = Edited(pipe, edit)
    try:
        with deterministic(1), torch.no_grad():  # the same bits whatever the number of threads
            if edit.kind == "keys_and_values":
                change = partial(torch.matmul, other=_solve_closed_form(pipe, edit, texts, edited.record))
            else:
                change = _prepare_direction_edit(pipe, edit, texts, text_sites, final, edited)
            put = edited.add_bias if edit.kind == "shift" else edited.map_weights
            for address in attentions:
                for part in edit.parts:
                    put(f"{address}.{part}", change)
    except BaseException:
        edited.undo()
        raise
    edited.record["sites"].sort()
    return edited


def check_edit(pipe: Any, edit: Edit, tokenizers: Sequence[Any], limit: int) -> None:
    """Raise the `UserError` that `apply` would for wrong sites or words; the pipeline needs no weights."""
    _edited_sites(pipe, edit)
    _fill_contexts(edit, tokenizers, limit)


# Where an edit writes


def _edited_sites(pipe: Any, edit: Edit) -> tuple[list[str], list[Site], bool]:
    """Return cross-attentions and text-encoder sites that an edit alters, and whether ``text.final`` is one of them.

    That is the text all cross-attentions read, which then are all returned. UserError for a site that cannot be edited.
    """
    text_too = edit.kind in ("project", "shift")
    chosen: set[str] = set()
    try:
        every = [site.address for site in site_table.attention_sites(pipe, "cross")]
        if not every:
            raise UserError("edit: expected a model with cross-attentions, found none: choose another")
        for pattern in edit.sites if edit.sites is not None else [FINAL] if text_too else every:
            matched = site_table.resolve(pipe, [pattern])  # names the nearest where there is none
            cross = [site.address for site in matched if site.address in every]
            for site in () if cross else matched:
                if not (text_too and site.space == "prompt"):
                    raise UserError(
                        f"edit.sites: expected a cross-attention{' or the text' if text_too else ''}, got {pattern!r},"
                        f" which is {site.address}: choose among {', '.join(every[:3])} …"
                    )
                if site.address != FINAL:
                    site.require_writable()
            chosen.update(cross or [site.address for site in matched])
    except HookError as error:
        raise UserError(f"edit.sites: {str(error).removeprefix('sites: ')}") from None
    final = FINAL in chosen
    text = [one for one in site_table.available(pipe) if one.address in chosen - {FINAL, *every}]
    return [one for one in every if final or one in chosen], text, final


# States of words in their contexts


def _fill_contexts(edit: Edit, tokenizers: Sequence[Any], limit: int) -> dict[str, FilledContexts]:
    """Return, by word of an edit, its context prompts filled with the word; a `UserError` for over `limit` tokens."""
    filled_in = {}
    for word in edit.named_words:
        texts, spans = zip(*(fill_person(context, word) for context in edit.contexts))
        for tokenizer in tokenizers:
            tokenize(texts, tokenizer, lambda index, word=word: f"edit: contexts[{index}] ({word})", limit)
        read = encode(tokenizers[0], texts, "edit")
        last = [token_positions(offsets, span)[-1] for (_, offsets), span in zip(read, spans)]
        filled_in[word] = FilledContexts(list(texts), last)
    return filled_in


def _encode_states(pipe: Any, texts: Sequence[str], site: Site | None = None) -> Tensor:
    """Return the states of each text, float64 ``(texts, tokens, width)``, at a `site` or as cross-attention's input.

    States of XL join both encoders'.
    """
    states: list[Tensor] = []
    at_site: list[Tensor] = []
    options = {"device": pipe.device, "num_images_per_prompt": 1, "do_classifier_free_guidance": False}
    with contextlib.ExitStack() as stack:
        if site is not None:
            receive = at_site.append
            reader = site.attach_reader(pipe, lambda value: receive(_to_float64(value)))
            stack.callback(reader.remove)
        for start in range(0, len(texts), BATCH):
            encoded = pipe.encode_prompt(prompt=list(texts[start : start + BATCH]), **options)
            states.append(_to_float64(encoded[0]))
    return torch.cat(states if site is None else at_site)


def _to_float64(values: Tensor) -> Tensor:
    """Return a tensor as float64 on the CPU, without gradient."""
    return values.detach().cpu().double()


def _states_from_word(states: Tensor, texts: FilledContexts, positions: str) -> list[Tensor]:
    """Return each text's states from its word's last token on, or of that token alone if `positions` is ``word``."""
    return [
        row[place : place + 1] if positions == "word" else row[place:]
        for row, place in zip(states, texts.last, strict=True)
    ]


# Closed form


def _solve_closed_form(pipe: Any, edit: Edit, texts: Fillings, record: dict[str, Any]) -> Tensor:
    """Return the closed form's matrix X, float64 (width, width), and write its left-over error into `record`."""
    contexts = range(len(edit.contexts))
    rows, kept_rows = _target_rows(
        edit, texts, {word: _encode_states(pipe, one.texts) for word, one in texts.items()}
    )
    (states, targets), (kept, _) = _stack_rows(rows, contexts), _stack_rows(kept_rows, contexts)
    left, right = _matrices(edit, states, targets, kept)
    mapping = torch.cholesky_solve(right.T, torch.linalg.cholesky(left)).T  # left is symmetric
    missed, changed = states @ mapping.T - targets, kept @ mapping.T - kept
    record["left_over"] = _relative_errors(missed, states - targets, changed, kept)
    record["left_over_held_out"] = {"edited": None, "kept": None}
    if len(contexts) > 1:
        held_out = []
        for number in contexts:
            rest = [one for one in contexts if one != number]
            left, right = _matrices(edit, *_stack_rows(rows, rest), _stack_rows(kept_rows, rest)[0])
            (tested, goals), (tested_kept, _) = (_stack_rows(part, [number]) for part in (rows, kept_rows))
            # of these states alone: a whole map is slow where states are wide
            both = torch.cat([tested, tested_kept])
            mapped = (right @ torch.cholesky_solve(both.T, torch.linalg.cholesky(left))).T
            held_out.append((mapped[: len(tested)] - goals, mapped[len(tested) :] - tested_kept))
        missed, changed = map(torch.cat, zip(*held_out))
        record["left_over_held_out"] = _relative_errors(missed, states - targets, changed, kept)
    return mapping


def _target_rows(edit: Edit, texts: Fillings, states: Mapping[str, Tensor]) -> tuple[Rows, Rows]:
    """Return edited and kept rows (context, states, targets) from each word's states, ``(contexts, tokens, width)``."""
    word_states = {word: _states_from_word(states[word], texts[word], edit.positions) for word in texts}
    edited: Rows = []
    for word, shares in edit.words.items():
        for context, old in enumerate(word_states[word]):
            count = min([len(old), *(len(word_states[other][context]) for other in shares)])
            old = old[:count]
            target = old.clone()
            for other, share in shares.items():
                target += share * (word_states[other][context][:count] - old)
            edited.append((context, old, target))
    none = [(context, old[:0], old[:0]) for context, old, _ in edited]  # where no word is kept
    kept = [(context, one, one) for word in edit.keep for context, one in enumerate(states[word])]
    return edited, none + kept


def _stack_rows(rows: Rows, contexts: Collection[int]) -> tuple[Tensor, ...]:
    """Return the states and the targets in the rows of these contexts, each joined to float64 ``(states, width)``."""
    return tuple(map(torch.cat, zip(*((old, new) for context, old, new in rows if context in contexts))))


def _matrices(edit: Edit, states: Tensor, targets: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
    """Return the symmetric matrix A and the matrix B, (width, width) each, of an edit's closed form X = B A⁻¹."""
    kept_products = edit.keep_weight * kept.T @ kept
    left = states.T @ states + kept_products
    added = edit.ridge * left.diagonal().mean() * torch.eye(len(left), dtype=torch.float64)
    return left + added, targets.T @ states + kept_products + added


def _relative_errors(error: Tensor, goal: Tensor, change: Tensor, kept: Tensor) -> dict[str, float | None]:
    """Return ``edited``: |error|² / |goal|², and ``kept``: |change|² / |kept|²; None where the divisor is 0."""
    ratios = {"edited": (error, goal), "kept": (change, kept)}
    return {
        name: float(part.square().sum() / total.square().sum()) if total.any() else None
        for name, (part, total) in ratios.items()
    }


# Directions


def _prepare_direction_edit(
    pipe: Any, edit: Edit, texts: Fillings, text_sites: list[Site], final: bool, edited: Edited
) -> Callable[[Tensor], Tensor]:
    """Hook a direction into `text_sites`; return the function from key or value weights to new ones, or to a bias."""
    # all directions are those of the model as it was
    at_text = {site: _direction(pipe, edit, texts, site) for site in text_sites}
    read = _direction(pipe, edit, texts)
    options = torch.tensor([float(edit.kind == "shift"), edit.amount], dtype=torch.float64)
    for site, direction in at_text.items():
        change = partial(_change_states, edit, direction)
        edited.write_at_site(site, change, torch.cat([direction, options]))

    def change_weight(weight: Tensor) -> Tensor:
        """Return a bias along the direction (shift), or the weights (width, text width) without it."""
        if edit.kind == "shift":
            return edit.amount * (weight @ read)
        if final:
            return weight - edit.amount * _project_onto(weight.T, read).T
        return weight - edit.amount * _project_onto(weight, weight @ read)

    return change_weight


def _direction(pipe: Any, edit: Edit, texts: Fillings, site: Site | None = None) -> Tensor:
    """Return an edit's direction, ``(width,)``: mean difference of states, its second word's less the first's."""
    both = [texts[word] for word in edit.direction or ()]
    states = [_states_from_word(_encode_states(pipe, one.texts, site), one, edit.positions) for one in both]
    pairs = [(first, second, min(len(first), len(second))) for first, second in zip(*states)]
    return torch.cat([second[:count] - first[:count] for first, second, count in pairs]).mean(0)


def _project_onto(columns: Tensor, direction: Tensor) -> Tensor:
    """Return the component of each column (width, columns) along a direction (width,); zeros if that has length 0."""
    length = direction.square().sum()
    if length == 0:
        return torch.zeros_like(columns)
    return torch.outer(direction, direction @ columns) / length


def _change_states(edit: Edit, direction: Tensor, values: Tensor) -> Tensor:
    """Return text states ``(..., width)`` with a direction added, or with their component along it taken out."""
    along, states = direction.to(values.device, torch.float32), values.float()
    if edit.kind == "shift":
        return (states + edit.amount * along).to(values)
    length = along.square().sum()
    share = (states @ along) / length if length > 0 else torch.zeros_like(states[..., 0])
    return (states - edit.amount * share[..., None] * along).to(values)
