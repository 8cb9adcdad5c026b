"""Scores of tracing methods against scikit-learn, and tables worked by hand."""

import numpy as np
import pytest
from sklearn.metrics import label_ranking_average_precision_score, roc_auc_score

from analysis.methods.tracing.localisation import localisation


@pytest.mark.parametrize("seed", range(5))
def test_auroc_and_reciprocal_rank_are_scikit_learns(seed):
    rng = np.random.default_rng(seed)
    scores, truth = rng.integers(0, 6, 12) / 5, rng.random(12) < 0.4
    truth[:2] = [True, False]
    assert localisation(scores, truth).auroc == pytest.approx(roc_auc_score(truth, scores))
    one = np.arange(12) == rng.integers(
        12
    )  # with one true site average precision is 1 / rank, ties at their worst
    expected = label_ranking_average_precision_score(one[None], scores[None])
    assert localisation(scores, one).reciprocal_rank == pytest.approx(expected)


@pytest.mark.parametrize(
    ("scores", "truth", "rank", "hit", "recall", "auroc", "leakage"),
    [
        ([3, 2, 1], [1, 0, 0], 1, 1, 1, 1, 2),
        ([2, 2, 1], [1, 0, 0], 2, 0, 0, 0.75, 2),  # a tie is no hit
        ([np.nan, -5, 1], [1, 0, 0], 3, 0, 0, 0, 5),
        ([3, 1, 2], [1, 1, 0], 1, 1, 0.5, 0.5, 2),
        ([3, 2, 1], [1, 1, 0], 1, 1, 1, 1, 1),
        ([3, 2, 1], [0, 0, 0], np.nan, np.nan, np.nan, np.nan, 3),
        ([3, 2], [1, 1], 1, 1, 1, np.nan, np.nan),
    ],
)
def test_scores_by_hand(scores, truth, rank, hit, recall, auroc, leakage):
    found = localisation(scores, np.array(truth, bool))
    np.testing.assert_equal(
        (found.rank, found.hit, found.recall, found.auroc, found.leakage), (rank, hit, recall, auroc, leakage)
    )
    np.testing.assert_equal(found.reciprocal_rank, 1 / rank)


def test_shapes_that_do_not_go_together_are_refused():
    with pytest.raises(ValueError, match="truth: expected the shape"):
        localisation([1.0, 2.0], [True])
