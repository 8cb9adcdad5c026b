"""Activations pooled while a pipeline runs: a vector of channels in the place of a picture or of a row of tokens."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from hooks.architectures.site import Site
from hooks.architectures.text_encoders import TEXT_ENCODERS
from hooks.errors import HookError

PositionGroups = Mapping[str, Sequence[int]]  # of one prompt: token positions by the group's name
RowGroups = Sequence[PositionGroups]  # of each row of the batch
# address of a site, number of the call, row of the batch, places of the site: the numbers of those that are kept
Chooser = Callable[[str, int, int, int], Sequence[int]]
JOINED = "dit"  # in the place of an encoder's name: the text that a diffusion transformer is given
_OF_TOKENS = re.compile(
    r"\.cross(\.\d+)?\.(key|value)$|^dit\.(?!.*mod)(.+\.)?text(\.(query|key|value|heads))?$"
)


def of_tokens(site: Site) -> bool:
    """Return whether a site has a row for each token: text encoders and streams, cross-attention's keys and values."""
    if site.address == "text.pooled":
        return False
    return site.space == "prompt" or _OF_TOKENS.search(site.address) is not None


def _groups_of(site: Site, groups: RowGroups | Mapping[str, RowGroups] | None) -> RowGroups | None:
    """The groups of a site's tokens: those of its text encoder, or of the text that the denoiser is given."""
    if not isinstance(groups, Mapping):
        return groups
    name = site.address.partition(".")[0]
    return groups.get(name if name in TEXT_ENCODERS and site.address != "text.final" else JOINED)


def vectors(site: Site, values: Tensor) -> Tensor:
    """The channels of each place of a picture, row by row, or of each token: shape (rows, places, c).

    A vector has one place; heads stand one after another.
    """
    if values.ndim == 2:
        return values[:, None]
    if values.ndim == 4 and site.heads is None:
        return values.flatten(2).transpose(1, 2)
    return values.flatten(2)


def over_space(site: Site, values: Tensor) -> Tensor:
    """The mean over all places of a picture, shape (rows, c), float32; heads stand one after another."""
    values = values.detach().float()
    if values.ndim == 2:  # a vector, which has no places
        return values
    if values.ndim == 4 and site.heads is None:
        return values.mean(dim=(2, 3))
    return values.mean(dim=1).flatten(1)


def pooled(site: Site, values: Tensor, groups: RowGroups | Mapping[str, RowGroups] | None) -> Tensor:
    """The mean over all places of a picture, or over each row's groups of token positions, NaN of an empty group."""
    of_rows = _groups_of(site, groups)
    if not of_tokens(site) or of_rows is None:
        return over_space(site, values)
    if len(of_rows) != len(values):
        raise HookError(
            f"position_groups: expected one a row of the batch ({len(values)}), but got {len(of_rows)}"
        )
    tokens = values.detach().float().flatten(2)
    weights = torch.zeros(len(values), len(of_rows[0]), tokens.shape[1])
    for row, named in enumerate(of_rows):
        for index, (name, positions) in enumerate(named.items()):
            if any(not 0 <= position < tokens.shape[1] for position in positions):
                raise HookError(
                    f"{site.address}: expected positions below {tokens.shape[1]}, but got {name} at {positions}"
                )
            weights[row, index, list(positions)] = 1.0
    weights /= weights.sum(dim=2, keepdim=True)  # an empty group: 0 / 0
    return weights.to(tokens.device) @ tokens


def require_groups(sites: Sequence[Site], groups: RowGroups | Mapping[str, RowGroups] | None) -> None:
    """Raise a HookError where sites of tokens are to be pooled and nobody says over which positions."""
    for site in sites:
        if of_tokens(site) and not _groups_of(site, groups):
            raise HookError(
                f"{site.address}: expected groups of token positions to pool over, but got none: "
                "pass position_groups, one mapping a row (hooks.position_groups makes one)"
            )
    for rows in groups.values() if isinstance(groups, Mapping) else (groups or (),):
        if len({tuple(named) for named in rows}) > 1:
            raise HookError("position_groups: expected the same names in every row")
