"""Split-product: the similarity of two images in the patch in which they are most similar."""

from __future__ import annotations

import torch
from torch.nn import functional as F


def split_product(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Return the largest cosine of corresponding patches of two images, tokens ``(patches, d)`` in the same order.

    From -1 to 1, computed in float64; the cosine with a token of zeros is 0.

    Source: Wu et al. 2025, section 4.1.3, after Somepalli et al. 2023: "the maximum cosine similarity among
    corresponding patches". That the tokens are those of the last layer after its norm, class token left out, is a
    choice of ours; the paper leaves it open.
    """
    one, other = (F.normalize(tokens.double().cpu(), dim=-1) for tokens in (first, second))
    return (one * other).sum(-1).max()
