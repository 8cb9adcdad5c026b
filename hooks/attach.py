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
    def hook(module: Any, args: tuple[Any, ...], output: Any = None) -> None:
        values = site.take(args if site.read == "input" else output)
        receive(values - site.take(args) if site.read == "update" else values)

    if site.read == "input":
        return module.register_forward_pre_hook(hook)
    return module.register_forward_hook(hook)


def attach_writer(module: Any, site: Site, change: Callable[[Tensor], Tensor | None]) -> Any:
    """Put what `change` makes of a site's value in its place, at every run of its module.

    It runs before the hooks that are on the module already, so that readers, and what transformers gathers as
    hidden states, see what was written. `change` is handed the value, of all rows of the batch, must not alter it, and
    returns another of this shape, or None to leave it.
    """
    site.require_writable()

    def hook(module: Any, args: tuple[Any, ...], output: Any = None) -> Any:
        whole = args if site.read == "input" else output
        given = site.take(whole)
        value = given - site.take(args) if site.read == "update" else given
        values = change(value)
        if values is None:
            return None
        # what stays of an update leaves the output as it is, to the last bit
        return site.give(whole, given + (values - value) if site.read == "update" else values)

    if site.read == "input":
        return module.register_forward_pre_hook(hook, prepend=True)
    return module.register_forward_hook(hook, prepend=True)
