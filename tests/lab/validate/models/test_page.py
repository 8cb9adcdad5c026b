"""Tests of the calibration page's sentences."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
from PIL import Image

from lab.validate.models import page
from probes.config.schema import Config
from tests.lab.validate.models.test_frequencies import rendered


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


def test_the_section_on_frequencies_names_the_model_and_every_thing_that_may_come():
    samples, images = rendered("toyworld-null", prompts=6, seeds=1)
    tests = pd.DataFrame({"group": ["all"], "first": ["feminine"], "second": ["masculine"], "p_bh": [0.7]})
    run = SimpleNamespace(
        config=Config.stored({"model": "toyworld-null"}),
        samples=lambda columns: samples.assign(sample_id=samples.index)[columns],
        images=lambda ids: [Image.fromarray(images[row]) for row in ids],
        table=lambda name: tests,
    )
    head, _, claim, _, *table = page.frequency_section(run).split("\n")
    assert head == "### toyworld-null"
    assert claim.startswith("What a caption names is drawn in 100.0 % of cases")
    assert claim.endswith("after adjustment: 0 of 1 (feminine, masculine).")
    assert sum(line.startswith("| ") for line in table) > 20 and table[-2:] == ["", ""]


def test_transformers_are_compared_with_the_one_that_leans(monkeypatch):
    row = {"quantity": "z₀", "gap": 0.2, "word_gap": 0.1, "n_prompts": 6}
    row |= dict.fromkeys(("ci_low", "ci_high", "word_low", "word_high", "p_value", "p_control"), 0.01)
    gaps = {"toyworld-dit": 0.2, "toyworld-dit-block-1": -0.1}
    monkeypatch.setattr(
        page, "headline_gaps", lambda run: pd.DataFrame([row | {"gap": gaps[run.config.model]}])
    )
    monkeypatch.setattr(page, "frequency_section", lambda run: "")
    text = page.page([SimpleNamespace(config=Config.stored({"model": model})) for model in gaps])
    assert (
        text.startswith("# Calibration of diffusion transformers") and "calibration_transformers.md" in text
    )
    assert "gap / toyworld-dit's" in text and "No run of `toyworld-dit-null` was given." in text
    assert "| toyworld-dit-block-1 | z₀ | -0.1000 |" in text and "| 0.50 | 6 |" in text
