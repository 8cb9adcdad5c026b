"""Tests of the calibration page's sentences."""

from types import SimpleNamespace

import numpy as np

from lab.validate.models import page


def test_the_sentence_on_all_measures_names_those_that_were_tested(monkeypatch):
    p_values = {
        name: (np.array([0.5, 0.6]), np.array(words))
        for name, words in (("z₀", [0.2, 0.01]), ("SSIM", [0.01, 0.5]), ("ResNet", [0.4, 0.3]))
    }
    monkeypatch.setattr(page, "permuted_p_values", lambda pairs, names: p_values)
    monkeypatch.setattr(page, "StoredSimilarities", lambda run: None)
    monkeypatch.setattr(page, "indicators", lambda config: [SimpleNamespace(name="a")] * 9)
    text = " ".join(page.permutation_section(SimpleNamespace(config=None)).split())
    assert "At least one of z₀, SSIM and ResNet is beyond words in **100.0 %** of these choices" in text
    assert "in **50.0 %** where z₀ is the primary measure" in text
    assert (
        "| SSIM | 0.0 % of 2 | 50.0 % of 2 |" in text and "| ResNet |" not in text
    )  # it stands with the features
