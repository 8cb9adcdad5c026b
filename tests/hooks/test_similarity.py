"""Cosines against SciPy, worked examples and properties."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cosine as scipy_cosine

from hooks import HookError, similarity
from hooks.similarity import SharedPositions, cosine, cosine_at, end_of_text, gram, group_size

PAIRS = [(0, 1), (0, 2), (3, 1), (2, 2)]
LEFT, RIGHT = (torch.tensor(rows) for rows in zip(*PAIRS))


def rows(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1)).to(dtype)


def by_scipy(a, b):
    return 1 - scipy_cosine(a.double().numpy().ravel(), b.double().numpy().ravel())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_cosine_is_scipys(dtype):
    values = rows(4, 3, 5, 7, dtype=dtype)
    found = cosine(values, LEFT, RIGHT)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found, [by_scipy(values[i], values[j]) for i, j in PAIRS], atol=1e-6)


def test_half_precision_does_not_overflow():
    values = torch.full((2, 4096), 6e4, dtype=torch.float16)
    assert cosine(values, torch.tensor([0]), torch.tensor([1])).item() == pytest.approx(1.0)


def test_a_million_elements_lose_no_precision():
    values = rows(3, 320 * 64 * 64).relu() + 0.1
    found = cosine(values, torch.tensor([0, 0]), torch.tensor([1, 0]))
    assert found[0].item() == pytest.approx(by_scipy(values[0], values[1]), abs=2e-7)
    assert found[1].item() == pytest.approx(1.0, abs=2e-7)


def test_chunks_change_nothing(monkeypatch):
    values = rows(4, 50)
    whole = cosine(values, LEFT, RIGHT)
    monkeypatch.setattr(similarity, "MAX_ELEMENTS", 60)
    assert torch.equal(cosine(values, LEFT, RIGHT), whole)


def test_symmetry_bounds_scale_and_sign():
    values = rows(4, 30)
    found = cosine(values, LEFT, RIGHT)
    assert torch.equal(found, cosine(values, RIGHT, LEFT))
    assert found.abs().max() <= 1
    assert found[3] == pytest.approx(1.0)
    scaled = values * torch.tensor([2.0, 3.0, 0.5, -1.0])[:, None]
    torch.testing.assert_close(cosine(scaled, LEFT, RIGHT), found * torch.tensor([1.0, 1.0, -1.0, 1.0]))


def test_zeros_have_no_cosine():
    values = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    found = cosine(values, torch.tensor([0, 1]), torch.tensor([1, 2]))
    assert found[0].isnan()
    assert found[1] == 0.0


def test_cosine_at_one_position():
    values = rows(4, 6, 5)
    ends = torch.tensor([2, 5, 0, 3])
    expected = [by_scipy(values[i, ends[i]], values[j, ends[j]]) for i, j in PAIRS]
    np.testing.assert_allclose(cosine_at(values, LEFT, RIGHT, ends), expected, atol=1e-6)


def test_shared_positions_are_aligned_and_may_be_none():
    values = rows(4, 6, 5)
    positions = [([1, 2, 4], [1, 3, 5]), ([2], [2]), ([], []), ([0, 5], [5, 0])]
    found = SharedPositions(positions, 4).cosine(values, LEFT, RIGHT)
    expected = [
        by_scipy(values[i, a], values[j, b]) if a else np.nan for (i, j), (a, b) in zip(PAIRS, positions)
    ]
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        ([([1], [1])], r"one entry per pair \(2\), but got 1"),
        ([([1], [1]), ([1, 2], [1])], r"shared_positions\[1\]: .* 2 and 1"),
        ([([1], [1]), ([1], [-1])], r"shared_positions\[1\]: .* -1"),
    ],
)
def test_shared_positions_that_do_not_fit(positions, message):
    with pytest.raises(HookError, match=message):
        SharedPositions(positions, 2)


def test_shared_positions_beyond_the_prompt():
    shared = SharedPositions([([6], [0])], 1)
    with pytest.raises(HookError, match="below the 6 of the prompt, but got 6"):
        shared.cosine(rows(2, 6, 5), torch.tensor([0]), torch.tensor([1]))


def test_end_of_text_as_clip_finds_it():
    ids = torch.tensor([[8, 3, 9, 9], [8, 9, 9, 9], [8, 1, 3, 9]])
    assert end_of_text(ids, 9).tolist() == [2, 1, 3]
    assert end_of_text(ids, 2).tolist() == [2, 1, 3], "old configurations: the highest id"
    padded_with_zero = torch.tensor([[8, 3, 9, 0, 0]])
    assert end_of_text(padded_with_zero, 9).tolist() == [2]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(6, 5), (6, 512), (6, 3, 50, 60), (6, 2 * 512 + 1)])
@pytest.mark.parametrize("group", [1, 3, 6])
def test_products_of_a_group_in_one_pass(shape, dtype, group):
    values = (rows(*shape) + 0.5).to(dtype)
    found = gram(values, group).view(-1, group, group)
    flat = values.flatten(1).double().unflatten(0, (-1, group))
    lengths = flat.norm(dim=-1)
    scale = lengths[:, :, None] * lengths[:, None, :]
    torch.testing.assert_close(found.double() / scale, flat @ flat.mT / scale, rtol=0, atol=3e-7)


def test_a_million_products_lose_no_precision():
    values = rows(3, 320 * 64 * 64).relu() + 0.1
    exact = values.double() @ values.double().T
    assert (gram(values, 3).view(3, 3).double() / exact - 1).abs().max() < 2e-7


@pytest.mark.parametrize(
    ("pairs", "count", "size"),
    [
        ([(0, 1), (3, 5)], 6, 3),
        ([(2, 3)], 6, 2),
        ([], 3, 1),
        ([(0, 11)], 12, 12),
        ([(0, 33)], 34, None),
        ([(0, 4), (1, 5)], 20, 10),
    ],
)
def test_groups_that_no_pair_crosses(pairs, count, size):
    assert group_size(pairs, count) == size


def test_reduced_precision_products_are_not_used():
    torch.set_float32_matmul_precision("medium")
    try:
        assert gram(rows(2, 8), 2) is None
    finally:
        torch.set_float32_matmul_precision("highest")
