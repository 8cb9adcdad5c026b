"""Sites that a trace exchanges, found in a pipeline by what the configuration asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hooks import sites
from hooks.architectures.registry import architecture_of
from hooks.architectures.text_encoders import text_cores
from hooks.errors import HookError
from probes.config.measurement import Trace
from probes.errors import UserError
from probes.stages.trace.patch_sites import POOLED, PatchSites, in_text, is_attention

_ENTRANCE = "dit.in.text"
_UNET_DEFAULT = ("unet.*.cross",)
_WRITTEN = ("query", "key", "value", "heads")
_LAYERS_READ = 2  # the last, or the last but one


def patch_sites(pipe: Any, trace: Trace, steps: int) -> PatchSites:
    """Return what a trace of a pipeline, which needs no weights, exchanges."""
    architecture = architecture_of(pipe)
    available = {site.address: site for site in sites.available(pipe)}
    cross = tuple(site.address for site in sites.attention_sites(pipe, "cross"))
    inputs = tuple(one for one in (POOLED, _ENTRANCE) if one in available and architecture.transformer)
    known = not any(layout.template for layout in architecture.layouts)  # which token of a template a word is
    towers = tuple(f"{name}.embeddings" for name in text_cores(pipe))
    if trace.positions and not known:
        raise UserError(
            f"trace.positions: expected a model that gives its text encoder a prompt as it stands, got one that alters"
            f" it or puts more around it ({type(pipe).__name__}): take the groups out"
        )
    if trace.sites != "default":
        chosen = _resolved(pipe, "sites", trace.sites)
    elif architecture.transformer:
        pooled = [one for one in inputs if one == POOLED]
        chosen = (*pooled, *(towers if len(towers) > 1 else ()), *cross)
    else:
        chosen = _resolved(pipe, "sites", _UNET_DEFAULT)
    for address in chosen:
        _require_writable(available[address], architecture.denoiser_name)
    return PatchSites(
        cross,
        tuple(sorted(chosen, key=lambda address: address != POOLED)),
        _heads(pipe, available, trace, cross[0]),
        _causal_layers(pipe) if known else (),
        architecture.calls(pipe, steps),
        inputs,
        towers if known else (),
        frozenset(one for one in chosen if not in_text(one) and available[one].of_tokens),
        architecture.denoiser_name,
        architecture.masked,
    )


def _causal_layers(pipe: Any) -> tuple[str, ...]:
    """The layers that a denoiser may be given of each text encoder whose positions read none after them."""
    found = []
    for name, core in text_cores(pipe).items():
        if core.causal:
            number = len(sites.module_at(pipe, core.layers))
            last = _LAYERS_READ if architecture_of(pipe).transformer else 1
            found += [f"{name}.layers.{layer}" for layer in range(max(0, number - last), number)]
    return tuple(found)


def _heads(pipe: Any, available: Mapping[str, sites.Site], trace: Trace, such_as: str) -> dict[str, int]:
    heads = {}
    for address in _resolved(pipe, "heads", trace.heads) if trace.heads else ():
        site = available.get(f"{address}.heads")
        if site is None or not is_attention(address):
            raise UserError(f"trace.heads: expected attentions such as {such_as}, got {address}: take it out")
        heads[address] = int(site.heads or 0)
    return heads


def _resolved(pipe: Any, field: str, patterns: Sequence[str]) -> tuple[str, ...]:
    try:
        return tuple(site.address for site in sites.resolve(pipe, patterns))
    except HookError as error:
        raise UserError(f"trace.{field}: {str(error).removeprefix('sites: ')}") from None


def _require_writable(site: sites.Site, denoiser: str) -> None:
    address, why = site.address, site.read_only
    if address.rpartition(".")[2] in _WRITTEN and not in_text(address):
        why = "it is a part of an attention: name the attention, and what is exchanged in `part`"
    elif why is None and site.space != "prompt" and not site.per_step:
        why = f"it lies behind the {denoiser}"
    if why is not None:
        raise UserError(
            f"trace.sites: expected sites of the text encoder or the {denoiser} that can be written, got {address}:"
            f" {why}"
        )
