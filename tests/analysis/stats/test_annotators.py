"""Agreement of annotators: the worked example of Krippendorff 2011, and by counting pairs one by one."""

import numpy as np
import pytest

from analysis.stats.annotators import krippendorff_alpha

BLANK = np.nan
# Krippendorff 2011: four observers, twelve units, five categories, missing values; nominal 0.743, ordinal 0.815
PRINTED = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, BLANK, BLANK, BLANK],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, BLANK, 3],
    [BLANK, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, BLANK],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, BLANK],
]


def test_the_printed_example():
    assert krippendorff_alpha(PRINTED) == pytest.approx(0.743, abs=0.0005)
    assert krippendorff_alpha(PRINTED, ordinal=True) == pytest.approx(0.815, abs=0.0005)


def test_one_annotator_and_one_answer_have_no_agreement():
    assert np.isnan(krippendorff_alpha([[1.0, 0.0, 1.0]]))
    assert np.isnan(krippendorff_alpha([[1.0, 1.0], [1.0, 1.0]]))
    with pytest.raises(ValueError, match="shape"):
        krippendorff_alpha([1.0])
