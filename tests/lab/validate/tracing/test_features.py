"""Recovery of known features and steering, against numbers made in other ways."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

from lab.validate.tracing.feature_methods import difference_of_means, principal_components, probe_directions
from lab.validate.tracing.feature_page import page, steering
from lab.validate.tracing.features import main
from probes.models import loading
from probes.toyworld import KNOWN_FEATURES
from probes.toyworld.known_features.truth import THINGS

STORED = Path(__file__).parents[4] / "docs/validation/features.json"


def cosine(first, second):
    return abs(float(first @ second)) / float(np.sqrt((first @ first) * (second @ second)))


def test_directions_of_methods_are_those_of_other_implementations():
    rng = np.random.default_rng(5)
    there = rng.random((60, 2)) < 0.4
    values = there @ rng.standard_normal((2, 5)) + rng.standard_normal((60, 5)) * [1, 2, 0.5, 1, 3]
    frame = pd.DataFrame(values).groupby(there[:, 1]).mean()
    np.testing.assert_allclose(difference_of_means(values, there)[1], frame.loc[True] - frame.loc[False])
    scale = values.std(0)
    scaled, sign = (values - values.mean(0)) / scale, np.where(there[:, 0], 1, -1)

    def loss(weights):
        return (
            np.logaddexp(0, -sign * (scaled @ weights[:-1] + weights[-1])).sum()
            + weights[:-1] @ weights[:-1] / 2
        )

    best = optimize.minimize(loss, np.zeros(6), method="BFGS", tol=1e-8).x[:-1]
    np.testing.assert_allclose(probe_directions(values, there)[0], best / scale, atol=2e-3)
    _, vectors = np.linalg.eigh(np.cov(values.T))
    for row, expected in zip(principal_components(values, 3), vectors.T[::-1], strict=False):
        assert cosine(row, expected) == pytest.approx(1)


def test_scores_of_steering_are_those_of_scipy():
    rng = np.random.default_rng(1)
    added, removed = (rng.integers(-2, 3, (24, 8, 8)) / 2 for _ in range(2))
    scores = steering(added, removed)
    own = np.array([np.diag(one).mean() for one in added])
    ends = stats.ttest_1samp(own, 0).confidence_interval(0.95)
    assert [scores["added"][key] for key in ("mean", "low", "high")] == pytest.approx([own.mean(), *ends])
    cells = {
        (way, steered, read): values[:, steered, read]
        for way, values in (("added", added), ("removed", removed))
        for steered in range(8)
        for read in range(8)
        if steered != read
    }
    assert len(cells) == 112
    assert scores["side"] == pytest.approx(np.mean([abs(values.mean()) for values in cells.values()]))
    way, steered, read = max(cells, key=lambda cell: abs(cells[cell].mean()))
    largest = scores["largest"]
    assert (largest["way"], largest["steered"], largest["read"]) == (way, THINGS[steered], THINGS[read])
    ends = stats.ttest_1samp(cells[way, steered, read], 0).confidence_interval(1 - 0.05 / 112)
    assert [largest["low"], largest["high"]] == pytest.approx([*ends])
    apart = [
        stats.ttest_1samp(values, 0).pvalue < 0.05 / 112 for values in cells.values() if values.std() > 0
    ]
    assert scores["told"] == sum(apart)


def test_the_page_is_made_of_what_is_stored():
    stored = json.loads(STORED.read_text())
    text, images = page(stored), stored["prompts"] * stored["seeds"]
    assert STORED.with_suffix(".md").read_text() == text
    assert stored["prompts"] == 24
    record = loading.load(loading.resolve(KNOWN_FEATURES), device="cpu").record
    assert stored["weight_hash"] == record["weight_hash"]
    truth = stored["methods"]["truth"]
    assert truth["whole"]["cosine"] == [1] * 8 and truth["whole"]["near"] == [1] * 8
    row = next(line for line in text.splitlines() if line.startswith("| hat | hatted |"))
    counts = [np.array(stored["plain"])[:, 1], np.array(stored["words"])[1, :, 1]]
    counts += [np.array(truth[way])[1, :, 1] for way in ("added", "removed")]
    for cell, values in zip(row.split("|")[3:-1], counts, strict=True):
        assert float(cell) == pytest.approx(values.sum() / images, abs=0.0051)
    steered = text.split("## Steering")[1].splitlines()
    for name, method in stored["methods"].items():
        if "added" in method:
            row = next(line for line in steered if line.startswith(f"| {name} |"))
            for cell, way, before in zip(
                row.split("|")[2:4], ("added", "removed"), ("plain", "words"), strict=True
            ):
                after, base = np.array(method[way]), np.array(stored[before])
                own = [
                    (after[place, :, place] - (base if way == "added" else base[place])[:, place]).mean()
                    for place in range(8)
                ]
                assert float(cell.split()[0].replace("−", "-")) == pytest.approx(
                    np.mean(own) / stored["seeds"], abs=0.0051
                )


def test_wrong_files_are_one_line(capsys, tmp_path):
    out = ["--out", str(tmp_path / "page.md")]
    np.save(tmp_path / "flat.npy", np.ones(3))
    (tmp_path / "text.npy").write_text("no array")
    for given, message in (
        (str(tmp_path / "flat.npy"), "expected NAME=FILE.npy"),
        (f"a={tmp_path / 'flat.npy'}", "got shape (3,)"),
        (f"a={tmp_path / 'text.npy'}", "expected an array of numpy"),
        (f"a={tmp_path / 'none.npy'}", "expected an array of numpy"),
    ):
        assert main([*out, "--directions", given]) == 2
        assert message in capsys.readouterr().err
    assert main(out) == 2
    assert "expected --measure, or results in" in capsys.readouterr().err
