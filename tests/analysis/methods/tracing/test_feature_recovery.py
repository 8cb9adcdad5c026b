"""Recovery of known directions, against all assignments."""

from itertools import permutations

import numpy as np
import pytest

from analysis.methods.tracing.feature_recovery import matched, recovery
from probes.toyworld.known_features.truth import directions


def cosine(first, second):
    return abs(float(first @ second)) / float(np.sqrt((first @ first) * (second @ second)))


@pytest.mark.parametrize(("number", "seed"), [(3, 0), (5, 1), (2, 2)])
def test_matching_is_the_best_of_all_assignments(number, seed):
    rng = np.random.default_rng(seed)
    found, true = rng.standard_normal((number, 4)), rng.standard_normal((3, 4))
    table = np.array([[cosine(one, other) for other in true] for one in found])
    size = min(number, 3)
    best = max(
        sum(table[row, column] for row, column in zip(rows, columns, strict=True))
        for rows in permutations(range(number), size)
        for columns in permutations(range(3), size)
    )
    result = recovery(found, true)
    there = result.match >= 0
    assert there.sum() == size and len(set(result.match[there])) == size
    assert result.cosine.sum() == pytest.approx(best)
    for place in range(3):
        others = [table[result.match[place], other] for other in range(3) if other != place]
        assert result.other[place] == pytest.approx(max(others) if there[place] else 0)
        near = [
            row for row in range(number) if table[row].argmax() == place and table[row, place] > 0.7071068
        ]
        assert result.near[place] == len(near)


def test_split_missed_and_turned_directions_are_told():
    true = directions()
    found = np.vstack([-3 * true[0], true[0] + 0.1 * true[4], true[1:6], np.zeros(6)])
    result = recovery(found, true)
    assert result.near.tolist() == [2, 1, 1, 1, 1, 1, 0, 0]
    assert result.match[0] == 0 and result.cosine[:6] == pytest.approx(np.ones(6))
    assert matched(found, true, result)[0] == pytest.approx(true[0])  # points as the known one
    assert result.other[0] == pytest.approx(1 / 3)
    few = recovery(true[:2], true)
    assert (few.match >= 0).sum() == 2 and few.cosine[few.match < 0].tolist() == [0] * 6
    with pytest.raises(ValueError, match="expected 6 channels, got 5"):
        recovery(np.ones((2, 5)), true)
    with pytest.raises(ValueError, match="one for each attribute, got 2"):
        recovery(true[:2], true, labelled=True)
