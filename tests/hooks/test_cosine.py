"""Cosines against SciPy, worked examples and properties."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cosine as scipy_cosine

from hooks import HookError
from hooks.cosine import cosine, cosine_of_tokens
from hooks.tensors import gram, sum_blocks

PAIRS = [(0, 1), (0, 2), (3, 1), (2, 2)]
LEFT, RIGHT = (torch.tensor(rows) for rows in zip(*PAIRS))
ATOL = 5e-5  # of float32, summed in any order that a processor chooses


def rows(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1)).to(dtype)


def by_scipy(a, b):
    return 1 - scipy_cosine(a.double().numpy().ravel(), b.double().numpy().ravel())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_cosine_is_scipys(dtype):
    values = rows(4, 3, 5, 7, dtype=dtype)
    found = cosine(values, LEFT, RIGHT)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found, [by_scipy(values[i], values[j]) for i, j in PAIRS], atol=ATOL)


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
    np.testing.assert_allclose(found, expected, atol=ATOL)


def test_shared_positions_beyond_the_prompt():
    with pytest.raises(HookError, match="below the 6 of the prompt, but got 6"):
        cosine_of_tokens(rows(2, 6, 5), torch.tensor([0]), torch.tensor([1]), [([6], [0])])


def test_a_million_products_lose_no_precision():
    values = rows(3, 320 * 64 * 64).relu() + 0.1
    exact = values.double() @ values.double().T  # all positive: the sum of |a_i b_i| is the product itself
    error = (gram(values, 3).view(3, 3).double() / exact - 1).abs().max()
    assert error < ATOL, "which one sum after the other misses by far"


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
    np.testing.assert_allclose(found / scale, exact / scale, rtol=0, atol=ATOL)


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
