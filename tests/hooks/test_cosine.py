"""Cosines against SciPy, worked examples and properties."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cosine as scipy_cosine

from hooks import HookError
from hooks.cosine import cosine, cosine_of_tokens
from hooks.tensors import BLOCK, gram, sum_blocks

PAIRS = [(0, 1), (0, 2), (3, 1), (2, 2)]
LEFT, RIGHT = (torch.tensor(rows) for rows in zip(*PAIRS))

# How far rounding can take a sum of products, on any processor (Higham 2002, Accuracy and Stability of Numerical
# Algorithms, 3.1 and 4.2). If every number passes through at most k roundings, in whatever order, with or without
# fused multiply-adds, a sum of products a_i b_i is off by at most gamma(k) * sum |a_i b_i|, which is at most
# gamma(k) |a| |b| (Cauchy and Schwarz). k is one multiplication and the depth of the additions: n of them one after
# the other; torch's sums are cascades of 4 levels of 16 or 32 numbers, with the last level's rest and the lanes of the
# vectors fewer than CASCADE deep for the few million numbers of a site. A sum one after the other, whose bound at a
# million numbers would be 0.08 and whose error is 8e-5 to 4e-4 there, does not come within.
ROUNDOFF = 2.0**-24  # of float32
CASCADE = 256


def gamma(roundings: int) -> float:
    return roundings * ROUNDOFF / (1 - roundings * ROUNDOFF)


def cosine_error(n: int) -> float:
    """Bound of a cosine's error over n numbers.

    The product is off by gamma |a| |b|, a squared length by gamma times itself, its root by half of that, so the
    cosine by twice gamma; roots, product of lengths, quotient and float32 itself are five roundings more.
    """
    return 2 * gamma(1 + min(n, CASCADE) + 5)


def product_error(n: int) -> float:
    """Bound of the error of `gram` over n numbers, in |a| |b|.

    A block's products are summed in an order of the processor's choice, the blocks in a cascade; the rest of the row is
    added at the end.
    """
    return gamma(1 + min(n, BLOCK) + min(n // BLOCK, CASCADE) + 1)


def rows(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1)).to(dtype)


def by_scipy(a, b):
    return 1 - scipy_cosine(a.double().numpy().ravel(), b.double().numpy().ravel())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_cosine_is_scipys(dtype):
    values = rows(4, 3, 5, 7, dtype=dtype)
    found = cosine(values, LEFT, RIGHT)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(
        found, [by_scipy(values[i], values[j]) for i, j in PAIRS], atol=cosine_error(105)
    )


def test_zeros_have_no_cosine():
    values = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    found = cosine(values, torch.tensor([0, 1]), torch.tensor([1, 2]))
    assert found[0].isnan()
    assert found[1] == 0.0


def test_shared_positions_are_aligned_and_may_be_none():
    values = rows(4, 6, 5)
    positions = [([1, 2, 4], [1, 3, 5]), ([2], [2]), ([], []), ([0, 5], [5, 0])]
    found = cosine_of_tokens(values, LEFT, RIGHT, positions)
    expected = [
        by_scipy(values[i, a], values[j, b]) if a else np.nan for (i, j), (a, b) in zip(PAIRS, positions)
    ]
    np.testing.assert_allclose(found, expected, atol=cosine_error(30))


def test_shared_positions_beyond_the_prompt():
    with pytest.raises(HookError, match="below the 6 of the prompt, but got 6"):
        cosine_of_tokens(rows(2, 6, 5), torch.tensor([0]), torch.tensor([1]), [([6], [0])])


def test_a_million_products_lose_no_precision():
    values = rows(3, 320 * 64 * 64).relu() + 0.1
    exact = values.double() @ values.double().T  # all positive: the sum of |a_i b_i| is the product itself
    bound = product_error(values.shape[1])
    assert bound < 5e-5, "which one matrix product over a whole row misses"
    assert (gram(values, 3).view(3, 3).double() / exact - 1).abs().max() < bound


def as_on_cuda(dtype, memory):
    """The product that CUDA has of half precision, which must get it as it lies in `memory`, uncopied."""

    def multiply(left, right):
        assert left.dtype == right.dtype == dtype
        assert memory is None or left.untyped_storage().data_ptr() == memory.untyped_storage().data_ptr()
        return left.float() @ right.float()

    return multiply


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("view", "in_place"),
    [
        (lambda values: values, True),
        (lambda values: values.to(memory_format=torch.channels_last), True),
        (lambda values: torch.cat([values, values])[18:].flatten(2)[:, 1:4], True),
        (lambda values: values.chunk(2, dim=-1)[1], False),
    ],
)
def test_half_precision_is_multiplied_as_it_is(dtype, view, in_place):
    exponents = torch.linspace(-4, 3, 18 * 5)[torch.randperm(90, generator=torch.Generator().manual_seed(2))]
    values = view((rows(18, 5, 24, 30) * 10 ** exponents.view(18, 5, 1, 1)).to(dtype))
    # 18 rows in groups of 3, of which a product takes 5 (15 rows), so that the last takes 1
    found = sum_blocks(values, 3, 15, as_on_cuda(dtype, values if in_place else None)).view(6, 3, 3)
    flat = values.flatten(1).double().numpy().reshape(6, 3, -1)
    exact = flat @ flat.transpose(0, 2, 1)
    lengths = np.linalg.norm(flat, axis=-1)
    scale = lengths[:, :, None] * lengths[:, None, :]
    np.testing.assert_allclose(found / scale, exact / scale, rtol=0, atol=product_error(flat.shape[-1]))


def test_autocast_does_not_round_products():
    values = rows(4, 3000)
    with torch.autocast("cpu", torch.bfloat16):
        within = gram(values, 2)
    assert torch.equal(within, gram(values, 2))


def test_products_of_reduced_precision_are_exact(monkeypatch):
    values = rows(2, 3000)
    exact = gram(values, 2)
    torch.set_float32_matmul_precision("medium")
    try:
        torch.testing.assert_close(gram(values, 2), exact, rtol=1e-6, atol=1e-4)
    finally:
        torch.set_float32_matmul_precision("highest")

    def refuse():
        raise RuntimeError("as where torch.backends.cuda.matmul.fp32_precision was set")

    monkeypatch.setattr(torch, "get_float32_matmul_precision", refuse)
    torch.testing.assert_close(gram(values, 2), exact, rtol=1e-6, atol=1e-4)
