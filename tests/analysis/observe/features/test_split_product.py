"""Split-product against a direct loop."""

import torch
from scipy.spatial.distance import cosine

from analysis.observe.features.observer import split_product


def test_equal_to_a_loop_over_patches():
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.randn(64, 48, generator=generator) for _ in range(2))
    second[17] += 0.7 * first[17]
    second[40] += 5 * first[3]  # alike in another place: no corresponding patch
    cosines = [1 - cosine(a, b) for a, b in zip(first.double().numpy(), second.double().numpy())]
    score = float(split_product(first, second))
    assert abs(score - max(cosines)) < 1e-12 and cosines.index(max(cosines)) == 17
    assert float(split_product(second, first)) == score
    assert abs(float(split_product(first, 2 * first)) - 1) < 1e-12


def test_half_precision_tokens_are_compared_in_double():
    tokens = torch.randn(16, 768, generator=torch.Generator().manual_seed(1))
    assert abs(float(split_product(tokens.half(), tokens)) - 1) < 1e-5
