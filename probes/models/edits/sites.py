"""Where an edit writes: its patterns, resolved to attentions and sites of the text. Imports no torch."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from hooks import sites as site_table
from hooks.errors import HookError
from hooks.sites import Site
from probes.config.generation import Edit
from probes.errors import UserError

FINAL = "text.final"


class EditSites(NamedTuple):
    """The addresses of cross-attentions and the sites of text encoders that an edit alters."""

    attentions: list[str]
    text: list[Site]
    final: bool  # text.final is among them: the text as all cross-attentions are given it


def places(pipe: Any, edit: Edit) -> EditSites:
    """Resolve the sites of an edit; the pipeline needs no weights."""
    text_too = edit.kind in ("project", "shift")
    try:
        known = site_table.attention_sites(pipe, "cross")
        every = [site.address for site in known]
        if not every:
            raise UserError("edit: expected a model with cross-attentions, found none: choose another")
        chosen: list[Site] = []
        for pattern in edit.sites if edit.sites is not None else ([FINAL] if text_too else every):
            chosen += _matching(pipe, pattern, known, text_too)
    except HookError as error:
        raise UserError(f"edit.sites: {str(error).removeprefix('sites: ')}") from None
    addresses = {site.address for site in chosen}
    text = [site for site in site_table.available(pipe) if site.address in addresses and _is_text(site)]
    return EditSites([one for one in every if one in addresses], text, FINAL in addresses)


def part_site(pipe: Any, address: str, part: str) -> Site:
    """The site of an attention's keys or values, whose module holds the weights."""
    (site,) = site_table.resolve(pipe, f"{address}.{part}")
    return site


def _matching(pipe: Any, pattern: str, known: list[Site], text_too: bool) -> list[Site]:
    """The sites that a pattern means: among attentions where it matches one, else among all."""
    matched = [site for site in known if fnmatchcase(site.address, pattern)]
    if matched:
        return matched
    for site in site_table.resolve(pipe, [pattern]):  # names the nearest where there is none
        if not (text_too and (_is_text(site) or site.address == FINAL)):
            raise UserError(
                f"edit.sites: expected a cross-attention{' or the text' if text_too else ''}, got {pattern!r}, which"
                f" is {site.address}: choose among {', '.join(one.address for one in known[:3])} …"
            )
        if site.address != FINAL:
            site.require_writable()
        matched.append(site)
    return matched


def _is_text(site: Site) -> bool:
    return site.space == "prompt" and site.address != FINAL and site.read != "pipeline"
