"""Tests of the calibration page's sentences."""

from types import SimpleNamespace

import numpy as np
import pandas as pd

from lab.validate.models import page
from probes.config.schema import Config


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


def test_transformers_are_compared_with_the_one_that_leans(monkeypatch):
    row = {"quantity": "z₀", "gap": 0.2, "word_gap": 0.1, "n_prompts": 6}
    row |= dict.fromkeys(("ci_low", "ci_high", "word_low", "word_high", "p_value", "p_control"), 0.01)
    gaps = {"toyworld-dit": 0.2, "toyworld-dit-block-1": -0.1}
    monkeypatch.setattr(
        page, "headline_gaps", lambda run: pd.DataFrame([row | {"gap": gaps[run.config.model]}])
    )
    text = page.page([SimpleNamespace(config=Config.stored({"model": model})) for model in gaps])
    assert (
        text.startswith("# Calibration of diffusion transformers") and "calibration_transformers.md" in text
    )
    assert "gap / toyworld-dit's" in text and "No run of `toyworld-dit-null` was given." in text
    assert "| toyworld-dit-block-1 | z₀ | -0.1000 |" in text and "| 0.50 | 6 |" in text
