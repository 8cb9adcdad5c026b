"""Making an edit in a loaded pipeline, keeping what is needed to undo it bit for bit."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from hooks.architectures.text_encoders import prompt_tokens
from hooks.prompt.wordlist import tokenizer_of
from hooks.sites import Site, attention_sites, module_at
from probes.config.edit_options import Edit
from probes.errors import UserError
from probes.models.devices import deterministic
from probes.models.edits import closed_form
from probes.models.edits.sites import EditSites, part_site, places
from probes.models.edits.states import Texts, mean_difference, states_at, text_states, texts_of


class Edited(contextlib.AbstractContextManager):
    """An edit that is in force, from :func:`apply` until :meth:`undo` or the end of a ``with`` block.

    ``record`` has ``edit`` (its options), ``sites`` (addresses that are edited), ``relative_change`` (by address of
    keys or values the Frobenius norm of the change over that of the weights), and of ``keys_and_values`` how far it
    falls short of its goal: ``left_over`` in its own contexts, and ``left_over_held_out`` in each context by the edit
    that is solved from the others (`probes.models.edits.closed_form`).
    """

    def __init__(self, edit: Edit) -> None:
        self.record: dict[str, Any] = {"edit": edit.plain(), "sites": [], "relative_change": {}}
        self._stack = contextlib.ExitStack()
        self._written: list[bytes] = []  # what identifies each hook

    def undo(self) -> None:
        """Put every weight back as it was, bit for bit, and take hooks off; edits made later are to be undone first."""
        self._stack.close()

    def __exit__(self, *error: object) -> None:
        self.undo()

    def hash(self, weights: str) -> str:
        """Return the hash of the edited model: of its weights (`weights`), and of what hooks write, if any."""
        if not self._written:
            return weights
        written = hashlib.sha256(b"".join(self._written)).hexdigest()
        return hashlib.sha256(f"{weights} {written}".encode()).hexdigest()

    def map_weights(self, pipe: Any, address: str, part: str, change: Callable[[Tensor], Tensor]) -> None:
        """Replace the float64 weights (width, text width) of an attention's keys or values by `change` of them."""
        site = part_site(pipe, address, part)
        weight = module_at(pipe, site.module).weight
        saved = weight.detach().clone()
        view = _slice(weight.data, site)
        before = view.detach().cpu().double()
        after = change(before)
        self._stack.callback(weight.data.copy_, saved)
        view.copy_(after.to(view))
        if not torch.isfinite(view).all():
            raise UserError(
                f"edit: expected finite weights in {view.dtype}, got NaN or infinity at {site.address}:"
                " use --dtype float32, or a smaller edit"
            )
        self.record["sites"].append(site.address)
        self.record["relative_change"][site.address] = float((after - before).norm() / before.norm())

    def add_bias(self, pipe: Any, address: str, part: str, bias: Callable[[Tensor], Tensor]) -> None:
        """Add a vector to an attention's keys or values; `bias` makes it from the matrix of weights."""
        site = part_site(pipe, address, part)
        module = module_at(pipe, site.module)
        weight = _slice(module.weight.data, site)
        if module.bias is None:
            module.bias = torch.nn.Parameter(torch.zeros_like(module.weight[:, 0]), requires_grad=False)
            self._stack.callback(setattr, module, "bias", None)
        else:
            self._stack.callback(module.bias.data.copy_, module.bias.detach().clone())
        view = _slice(module.bias.data, site)
        view += bias(weight.detach().cpu().double()).to(view)
        self.record["sites"].append(site.address)

    def write(self, pipe: Any, site: Site, change: Callable[[Tensor], Tensor], identity: Tensor) -> None:
        """Replace what is at a site of a text encoder by `change` of it, at every run."""
        self._stack.callback(site.attach_writer(pipe, change).remove)
        self._written.append(site.address.encode() + identity.double().numpy().tobytes())
        self.record["sites"].append(site.address)


def apply(pipe: Any, edit: Edit) -> Edited:
    """Make an edit in a pipeline of Stable Diffusion 1, 2 or XL; of XL the pooled text stays as it is.

    A `UserError` says what cannot be edited: a site, a word that the tokenizer cannot spell, or weights that would not
    be finite in the model's number format.
    """
    where, edited = places(pipe, edit), Edited(edit)
    named = (tokenizer_of(pipe, name) for name in ("text", "text_2"))
    texts = texts_of(edit, [one for one in named if one is not None], prompt_tokens(pipe))
    try:
        with deterministic(1), torch.no_grad():  # the same bits whatever the number of threads
            (_solve if edit.kind == "keys_and_values" else _along)(pipe, edit, texts, where, edited)
    except BaseException:
        edited.undo()
        raise
    edited.record["sites"].sort()
    return edited


def require(pipe: Any, edit: Edit, tokenizers: Sequence[Any], limit: int) -> None:
    """Refuse what :func:`apply` would, as far as it can be seen in a pipeline without weights."""
    places(pipe, edit)
    texts_of(edit, tokenizers, limit)


def _solve(pipe: Any, edit: Edit, texts: dict[str, Texts], where: EditSites, edited: Edited) -> None:
    states = {word: text_states(pipe, one.texts) for word, one in texts.items()}
    wanted = closed_form.goal(edit, texts, states)
    mapping = closed_form.solve(wanted, edit.ridge, edit.keep_weight)
    edited.record["left_over"] = closed_form.left_over(wanted, mapping)
    edited.record["left_over_held_out"] = closed_form.left_over_held_out(wanted, edit.ridge, edit.keep_weight)
    for address in where.attentions:
        for part in edit.parts:
            edited.map_weights(pipe, address, part, lambda weight: weight @ mapping)


def _along(pipe: Any, edit: Edit, texts: dict[str, Texts], where: EditSites, edited: Edited) -> None:
    both = [texts[word] for word in edit.direction or ()]
    # all directions are those of the model as it was
    at_text = {
        site: mean_difference([states_at(pipe, site, one.texts) for one in both], both, edit.positions)
        for site in where.text
    }
    read = mean_difference([text_states(pipe, one.texts) for one in both], both, edit.positions)
    options = torch.tensor([float(edit.kind == "shift"), edit.amount], dtype=torch.float64)
    for site, direction in at_text.items():
        edited.write(pipe, site, _writer(edit, direction), torch.cat([direction, options]))

    def without_direction(weight: Tensor) -> Tensor:
        if where.final:
            return weight - edit.amount * _onto(weight.T, read).T
        return weight - edit.amount * _onto(weight, weight @ read)

    every = [site.address for site in attention_sites(pipe, "cross")]
    for address in every if where.final else where.attentions:
        for part in edit.parts:
            if edit.kind == "shift":
                edited.add_bias(pipe, address, part, lambda weight: edit.amount * (weight @ read))
            else:
                edited.map_weights(pipe, address, part, without_direction)


def _onto(columns: Tensor, direction: Tensor) -> Tensor:
    """The component of each column along a direction, (width, columns); none along a direction of length 0."""
    length = direction.square().sum()
    if length == 0:
        return torch.zeros_like(columns)
    return torch.outer(direction, direction @ columns) / length


def _writer(edit: Edit, direction: Tensor) -> Callable[[Tensor], Tensor]:
    def change(values: Tensor) -> Tensor:
        along, states = direction.to(values.device, torch.float32), values.float()
        if edit.kind == "shift":
            return (states + edit.amount * along).to(values)
        length = along.square().sum()
        share = (states @ along) / length if length > 0 else torch.zeros_like(states[..., 0])
        return (states - edit.amount * share[..., None] * along).to(values)

    return change


def _slice(tensor: Tensor, site: Site) -> Tensor:
    """The rows of fused projections that belong to a site; a view."""
    if site.part is None:
        return tensor
    index, count = site.part
    return tensor.chunk(count, dim=0)[index]
