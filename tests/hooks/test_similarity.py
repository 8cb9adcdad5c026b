"""Cosines against SciPy, worked examples and properties."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cosine as scipy_cosine

from hooks import HookError, similarity
from hooks.similarity import SharedPositions, cosine, cosine_at, end_of_text

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
