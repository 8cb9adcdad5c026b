"""Making an edit in a loaded pipeline, keeping what is needed to undo it bit for bit."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from hooks.architectures.text_encoders import prompt_tokens
from hooks.attach import attach_writer
from hooks.prompt.wordlist import tokenizer_of
from hooks.sites import Site, attention_sites, module_at
from probes.config.edit_options import Edit
from probes.errors import UserError
from probes.models.devices import deterministic
from probes.models.edits import closed_form
from probes.models.edits.sites import EditSites, part_site, places
from probes.models.edits.states import mean_difference, states_at, text_states, written


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
        self._hooked = hashlib.sha256()
        self._hooks = 0

    def undo(self) -> None:
        """Put every weight back as it was, bit for bit, and take hooks off; edits made later are to be undone first."""
        self._stack.close()

    def __exit__(self, *error: object) -> None:
        self.undo()

    def hash(self, weights: str) -> str:
        """Return the hash of the edited model: of its weights (`weights`), and of what hooks write, if any."""
        if not self._hooks:
            return weights
        return hashlib.sha256(f"{weights} {self._hooked.hexdigest()}".encode()).hexdigest()

    # What an edit is made of

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

    def add_bias(self, pipe: Any, address: str, part: str, of: Callable[[Tensor], Tensor]) -> None:
        """Add a vector to an attention's keys or values; `of` makes it from the matrix of weights."""
        site = part_site(pipe, address, part)
        module = module_at(pipe, site.module)
        weight = _slice(module.weight.data, site)
        if module.bias is None:
            module.bias = torch.nn.Parameter(torch.zeros_like(module.weight[:, 0]), requires_grad=False)
            self._stack.callback(setattr, module, "bias", None)
        else:
            saved = module.bias.detach().clone()
            self._stack.callback(module.bias.data.copy_, saved)
        view = _slice(module.bias.data, site)
        view += of(weight.detach().cpu().double()).to(view)
        self.record["sites"].append(site.address)

    def write(self, pipe: Any, site: Site, change: Callable[[Tensor], Tensor], said: Tensor) -> None:
        """Replace what is at a site of a text encoder by `change` of it, at every run; `said` identifies the change."""
        self._stack.callback(attach_writer(module_at(pipe, site.module), site, change).remove)
        self._hooked.update(site.address.encode() + said.double().numpy().tobytes())
        self._hooks += 1
        self.record["sites"].append(site.address)


def apply(pipe: Any, edit: Edit) -> Edited:
    """Make an edit; see `probes.models.edits.apply`."""
    where = places(pipe, edit)
    made = Edited(edit)
    try:
        with deterministic(1), torch.no_grad():  # the same bits whatever the number of threads
            (_solve if edit.kind == "keys_and_values" else _along)(pipe, edit, where, made)
    except BaseException:
        made.undo()
        raise
    made.record["sites"].sort()
    return made


def _tokenizers(pipe: Any) -> list[Any]:
    both = (tokenizer_of(pipe, name) for name in ("text", "text_2"))
    return [tokenizer for tokenizer in both if tokenizer is not None]


def _solve(pipe: Any, edit: Edit, where: EditSites, made: Edited) -> None:
    texts = written(edit, _tokenizers(pipe), prompt_tokens(pipe))
    states = {word: text_states(pipe, one.texts) for word, one in texts.items()}
    wanted = closed_form.goal(edit, texts, states)
    mapping = closed_form.solve(wanted, edit.ridge, edit.keep_weight)
    made.record["left_over"] = closed_form.left_over(wanted, mapping)
    made.record["left_over_held_out"] = closed_form.left_over_held_out(wanted, edit.ridge, edit.keep_weight)
    for address in where.attentions:
        for part in edit.parts:
            made.map_weights(pipe, address, part, lambda weight: weight @ mapping)


def _along(pipe: Any, edit: Edit, where: EditSites, made: Edited) -> None:
    texts = written(edit, _tokenizers(pipe), prompt_tokens(pipe))
    first, second = (texts[word] for word in edit.direction or ())
    last = (first.last, second.last)
    # all directions are those of the model as it was
    at_text = {
        site: mean_difference(
            (states_at(pipe, site, first.texts), states_at(pipe, site, second.texts)), last, edit.positions
        )
        for site in where.text
    }
    read = mean_difference(
        (text_states(pipe, first.texts), text_states(pipe, second.texts)), last, edit.positions
    )
    for site, direction in at_text.items():
        made.write(pipe, site, _writer(edit, direction), torch.cat([direction, _kind(edit)]))
    every = [site.address for site in attention_sites(pipe, "cross")]
    for address in every if where.final else where.attentions:
        for part in edit.parts:
            if edit.kind == "shift":
                made.add_bias(pipe, address, part, lambda weight: edit.amount * (weight @ read))
            elif where.final:
                made.map_weights(
                    pipe, address, part, lambda weight: weight - edit.amount * _onto(weight.T, read).T
                )
            else:
                made.map_weights(
                    pipe, address, part, lambda weight: weight - edit.amount * _onto(weight, weight @ read)
                )


def _onto(columns: Tensor, direction: Tensor) -> Tensor:
    """The component of each column along a direction, (width, columns); none along a direction of length 0."""
    length = direction.square().sum()
    if length == 0:
        return torch.zeros_like(columns)
    return torch.outer(direction, direction @ columns) / length


def _writer(edit: Edit, direction: Tensor) -> Callable[[Tensor], Tensor]:
    def change(values: Tensor) -> Tensor:
        along = direction.to(values.device, torch.float32)
        states = values.float()
        if edit.kind == "shift":
            changed = states + edit.amount * along
        else:
            length = along.square().sum()
            share = (states @ along) / length if length > 0 else torch.zeros_like(states[..., 0])
            changed = states - edit.amount * share[..., None] * along
        return changed.to(values)

    return change


def _kind(edit: Edit) -> Tensor:
    return torch.tensor([float(edit.kind == "shift"), edit.amount], dtype=torch.float64)


def _slice(tensor: Tensor, site: Site) -> Tensor:
    """The rows of fused projections that belong to a site; a view."""
    if site.part is None:
        return tensor
    index, count = site.part
    return tensor.chunk(count, dim=0)[index]
