"""Hooks on the module behind a site: one that reads it, one that writes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from hooks.architectures.site import Site


def attach_reader(module: Any, site: Site, receive: Callable[[Tensor], None]) -> Any:
    """Hand what a site gives of its module, at every run of it, to `receive`."""

    @torch.no_grad()
    def before(module: Any, args: tuple[Any, ...]) -> None:
        receive(site.take(args))

    @torch.no_grad()
    def after(module: Any, args: Any, output: Any) -> None:
        values = site.take(output)
        receive(values - site.take(args) if site.read == "update" else values)

    if site.read == "input":
        return module.register_forward_pre_hook(before)
    return module.register_forward_hook(after)


def attach_writer(module: Any, site: Site, change: Callable[[Tensor], Tensor | None]) -> Any:
    """Put what `change` makes of a site's value in its place, at every run of its module.

    It runs before the hooks that are on the module already, so that readers, and what transformers gathers as
    hidden states, see what was written. `change` is handed the value, of all rows of the batch, must not alter it, and
    returns another of this shape, or None to leave it.
    """
    site.require_writable()

    def before(module: Any, args: tuple[Any, ...]) -> Any:
        values = change(site.take(args))
        return None if values is None else site.give(args, values)

    def after(module: Any, args: Any, output: Any) -> Any:
        given = site.take(output)
        if site.read != "update":
            values = change(given)
            return None if values is None else site.give(output, values)
        update = given - site.take(args)
        values = change(update)  # what stays of it leaves the output as it is, to the last bit
        return None if values is None else site.give(output, given + (values - update))

    if site.read == "input":
        return module.register_forward_pre_hook(before, prepend=True)
    return module.register_forward_hook(after, prepend=True)
