"""Where an edit writes: its patterns, resolved to cross-attentions and sites of the text. Imports no torch."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from hooks import sites as site_table
from hooks.errors import HookError
from hooks.sites import Site
from probes.config.edit_options import Edit
from probes.errors import UserError

FINAL = "text.final"


class EditSites(NamedTuple):
    """The sites of an edit.

    Attributes
    ----------
    cross : list of str
        Addresses of cross-attentions.
    text : list of Site
        Sites of text encoders.
    final : bool
        Whether ``text.final`` is among them: the text as it is given to all cross-attentions.
    """

    cross: list[str]
    text: list[Site]
    final: bool


def places(pipe: Any, edit: Edit) -> EditSites:
    """Resolve the sites of an edit; the pipeline needs no weights.

    Raises
    ------
    UserError
        A pattern matches nothing, or what can't be edited so.
    """
    closed = edit.kind in ("keys_and_values", "steer")
    try:
        known = site_table.attention_sites(pipe, "cross")
        cross = [site.address for site in known]
        if not cross:
            raise UserError("edit: expected a model with cross-attentions, found none: choose another")
        chosen: list[Site] = []
        for pattern in edit.sites if edit.sites is not None else (cross if closed else [FINAL]):
            chosen += _matching(pipe, pattern, known, closed)
    except HookError as error:
        raise UserError(f"edit.sites: {str(error).removeprefix('sites: ')}") from None
    addresses = {site.address for site in chosen}
    text = [site for site in site_table.available(pipe) if site.address in addresses and _is_text(site)]
    return EditSites([one for one in cross if one in addresses], text, FINAL in addresses)


def part_site(pipe: Any, address: str, part: str) -> Site:
    """The site of an attention's keys or values, whose module holds the weights."""
    (site,) = site_table.resolve(pipe, f"{address}.{part}")
    return site


def _matching(pipe: Any, pattern: str, known: list[Site], closed: bool) -> list[Site]:
    """The sites that a pattern means: among cross-attentions where it matches one, else among all."""
    matched = [site for site in known if fnmatchcase(site.address, pattern)]
    if matched:
        return matched
    for site in site_table.resolve(pipe, [pattern]):  # names the nearest where there is none
        if closed or not (_is_text(site) or site.address == FINAL):
            raise UserError(
                f"edit.sites: expected {'a cross-attention' if closed else 'a cross-attention or the text'}, got"
                f" {pattern!r}, which is {site.address}: choose among {', '.join(one.address for one in known[:3])} …"
            )
        if site.address != FINAL:
            site.require_writable()
        matched.append(site)
    return matched


def _is_text(site: Site) -> bool:
    return site.space == "prompt" and site.address != FINAL and site.read != "pipeline"
