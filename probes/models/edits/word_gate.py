"""Which rows of a batch name a word, by the states of their text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from probes.models.edits.states import Texts, text_states


class WordGate:
    """Tells whether a text names the edited word, by its tokens' states as the denoiser is given them.

    It does where some token is nearer to the mean state of that word's last token, over the contexts, than any token is
    to that of another word, and not farther than half of the way from the one mean to the nearest other, or than the
    word itself is in the farthest of the contexts, from the mean of the rest.

    Attributes
    ----------
    told : float
        Share of the contexts of all words of which it tells that, each left out.
    """

    def __init__(self, pipe: Any, texts: Mapping[str, Texts]) -> None:
        """Read the states of the contexts.

        Parameters
        ----------
        texts
            By word, the edited one first (`probes.models.edits.states.written`).
        """
        states = [text_states(pipe, one.texts) for one in texts.values()]
        tokens = torch.stack(
            [rows[range(len(rows)), one.last] for rows, one in zip(states, texts.values(), strict=True)]
        )
        self._means, self._reach = tokens.mean(1), _reach(tokens)  # (words, width)
        count, right = tokens.shape[1], []
        for left in range(count):
            kept = [number for number in range(count) if number != left] or [left]
            known = tokens[:, kept]
            names = _names(torch.stack([rows[left] for rows in states]), known.mean(1), _reach(known))
            right.append((names == (torch.arange(len(states)) == 0)).double().mean())
        self.told = float(torch.stack(right).mean())

    def names(self, text: Tensor) -> Tensor:
        """Return whether texts name the edited word, (rows,).

        Parameters
        ----------
        text : Tensor, shape (rows, tokens, width)
        """
        return _names(text.detach().cpu().double(), self._means, self._reach)

    def digest(self) -> Tensor:
        """Everything that it decides by, as numbers."""
        return torch.cat([self._means.flatten(), self._reach[None]])


def _reach(tokens: Tensor) -> Tensor:
    """How far from the edited word's mean it may be; tokens are (words, contexts, width)."""
    means, count = tokens.mean(1), tokens.shape[1]
    apart = (means[1:] - means[0]).norm(dim=1).min()
    own = (tokens[0] - means[0]).norm(dim=1).max() * count / max(count - 1, 1)
    return torch.maximum(apart / 2, own)


def _names(text: Tensor, means: Tensor, reach: Tensor) -> Tensor:
    nearest = torch.cdist(text, means.expand(len(text), -1, -1)).amin(1)  # (rows, words)
    return (nearest.argmin(1) == 0) & (nearest[:, 0] <= reach)
