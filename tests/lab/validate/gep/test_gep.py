"""Estimates of an audit against the checker: areas by scikit-learn, the page of the results."""

import json

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import matthews_corrcoef, roc_auc_score

from analysis.methods.gep.scores import Audit, by_context
from lab.validate.gep.__main__ import PAGE
from lab.validate.gep.agreement import estimate_agreement
from lab.validate.gep.readings import CHECKER, ESTIMATES, WORDS
from lab.validate.gep.result import _setting

NAMES = ("boots", "dress", "tie", "hat", "gloves")


def made(rng, contexts=8, images=6, noise=1.0, setting="neutral"):
    """Labels with a difference by word, and three estimates, each nearer to them than the one before."""
    chance = rng.random((1, 2, 1, len(NAMES)))
    labels = (rng.random((contexts, 2, images, len(NAMES))) < chance).astype(float)
    names = tuple(f"context {number}" for number in range(contexts))

    def audit(values, source):
        return Audit(values, names, WORDS, NAMES, setting, source)

    error = rng.normal(size=(3, *labels.shape)) * np.array([4.0, 2.0, 1.0])[:, None, None, None, None] * noise
    estimates = {name: audit(labels + error[number], name) for number, name in enumerate(ESTIMATES)}
    return {CHECKER: audit(labels, CHECKER), **estimates}


def test_agreement_of_each_estimate_is_that_of_scipy_and_scikit_learn():
    audits = made(np.random.default_rng(2), noise=0.3)
    result = estimate_agreement(audits, resamples=300)
    labelled = by_context(audits[CHECKER], *WORDS).mean(axis=0)
    for name, row in result["agreement"].items():
        estimated = by_context(audits[name], *WORDS).mean(axis=0)
        assert row["tau"][0] == pytest.approx(stats.kendalltau(estimated, labelled).statistic)
        assert row["pearson"][0] == pytest.approx(stats.pearsonr(estimated, labelled).statistic)
        assert row["mcc"][0] == pytest.approx(matthews_corrcoef(labelled >= 0, estimated >= 0))
        truth, values = (audits[one].values.reshape(-1, len(NAMES)) for one in (CHECKER, name))
        assert row["auc"][0] == pytest.approx(
            np.mean([roc_auc_score(*both) for both in zip(truth.T, values.T)])
        )
        assert row["auc"][1] < row["auc"][0] < row["auc"][2] and row["pearson"][1] < row["pearson"][2]
    both = result["agreement"]["CLS"]["auc"][0] - result["agreement"]["C"]["auc"][0]
    value, low, high = result["differences"]["CLS - C"]["auc"]
    assert value == pytest.approx(both) and 0 < low < value < high


def test_the_page_is_made_of_results_one_model_at_a_time(tmp_path, capsys):
    audits = {setting: made(np.random.default_rng(8), setting=setting) for setting in ("neutral", "unnamed")}
    settings = {setting: _setting(one) for setting, one in audits.items()} | {"explicit": {}}
    settings["explicit"] = _setting(made(np.random.default_rng(9), setting="explicit"))
    result = {"steps": 5, "dtype": "float32", "images": 96, "clip": "0", "settings": settings}
    text = PAGE.text({"toyworld": result, "toyworld-null": result})
    score = f"{settings['neutral']['score'][CHECKER]['score']:.4f}"
    assert f"| toyworld-null | neutral | checker | {score} |" in text
    (tmp_path / "audits.json").write_text(json.dumps({"toyworld": result}))
    assert PAGE.main(["--out", str(tmp_path / "audits.md")]) == 0
    assert (tmp_path / "audits.md").read_text(encoding="utf-8") == PAGE.text({"toyworld": result})
    assert PAGE.main(["--out", str(tmp_path / "other.md")]) == 2
    assert "name a run" in capsys.readouterr().err


def test_the_page_in_the_documentation_shows_the_results():
    results = PAGE.stored()
    assert PAGE.path.read_text(encoding="utf-8") == PAGE.text()
    assert [*results] == ["toyworld", "toyworld-mirror", "toyworld-null"]
    for result in results.values():
        assert result["images"] == 2560
