"""Similarities by features: from parts to columns, through measuring and report, and what a run lacks."""

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cosine

from analysis.metrics.registry import METRICS
from analysis.report.first_screen import not_run
from analysis.study import indicators
from analysis.tables.similarities.pictures import feature_similarities, stored_features
from analysis.tables.stage import measure
from probes.errors import UserError
from probes.runs import parts, schemas
from probes.runs.run import Run
from tests.analysis.printed import printed_tables
from tests.analysis.synthetic_run import DEFAULT_INDICATORS, configure, write_run

NAMES, WIDTH = list(DEFAULT_INDICATORS), 5


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with a vector of each image, part by part; of the second image none, of the third one of zeros."""
    path = tmp_path_factory.mktemp("features") / "run"
    run = Run.open(write_run(path, prompts=4, part_triplets=2))
    configure(run, measure={"bootstrap": 200, "permutations": 200})
    rng = np.random.default_rng(0)
    for number, file in enumerate(run.parts("samples")):
        rows = parts.read_part(file, ["sample_id", "triplet", "seed", "indicator"]).to_pylist()
        for place, row in enumerate(rows):
            row["vector"] = rng.normal(size=WIDTH).astype(np.float32)
            row["reason"] = ""
            if number == 0 and place == 1:
                row["vector"], row["reason"] = None, "no image"
            if number == 0 and place == 2:
                row["vector"] = np.zeros(WIDTH, np.float32)
        identity = parts.identity(number, {})
        parts.write_part(run.part_path("features/dino", number), rows, schemas.FEATURES, identity)
        pairs = [{"triplet": 0, "seed": 0, "pair": f"{NAMES[0]}-{NAMES[1]}", "value": 0.5}][: 1 - number]
        parts.write_part(
            run.part_path("features/split_product", number), pairs, schemas.FEATURE_PAIRS, identity
        )
    return Run.open(path)


def stored(run):
    tables = [parts.read_part(file).to_pandas() for file in run.parts("features/dino")]
    return pd.concat(tables).set_index(["triplet", "seed", "indicator"])["vector"]


def compared(run, name):
    words = [member.name for member in indicators(run.config)]
    return pd.concat(
        [feature_similarities(run, name, file.name, words) for file in run.parts("samples")],
        ignore_index=True,
    )


def test_equal_to_scipy_pair_by_pair(run):
    table, vectors = compared(run, "dino"), stored(run)
    assert not table.duplicated(["triplet", "seed", "pair"]).any()
    checked = 0
    for row in table.itertuples():
        first, second = (vectors[row.triplet, row.seed, name].astype(float) for name in row.pair.split("-"))
        if first.any() and second.any():
            assert row.dino == pytest.approx(1 - cosine(first, second), abs=1e-6)
            checked += 1
        else:
            assert np.isnan(row.dino)
    n = len(NAMES)
    assert len(table) == len(vectors) // n * n * (n - 1) // 2 - (
        n - 1
    )  # none with the image that has no vector
    assert checked == len(table) - (n - 2)


def test_measured_and_shown(run):
    measure(run)
    gap, disparity = run.table("gap"), run.table("disparity")
    for table in (gap, disparity):
        assert {"dino", "split_product"} <= set(table["metric"]) and "clip" not in set(table["metric"])
        assert set(table["version"][table["metric"] == "dino"]) == {"dino/1"}
    values = run.table("image_similarities")
    here = disparity[(disparity["metric"] == "dino") & (disparity["pair"] == f"{NAMES[0]}-{NAMES[1]}")]
    own = values[values["pair"] == f"{NAMES[0]}-{NAMES[1]}"].groupby("triplet")["dino"].mean()
    assert float(here["mean"].iloc[0]) == pytest.approx(float(own.mean()), abs=1e-6)
    assert {"dino"} <= {*run.table("specifications")["metric"]}


def test_what_is_not_run_is_said_with_its_reason(run):
    disparity, metrics = run.table("disparity"), [METRICS[name] for name in ("ssim", "clip", "dino")]
    missing = {"clip": "no weights on this machine: name a file in `observe.feature_weights`"}
    text = printed_tables(run.config, missing=missing, disparity=disparity)["table05_disparity"]
    assert "CLIP $\\uparrow$" in text
    assert "CLIP not run: no weights on this machine" in text
    assert not_run(metrics, run.table("gap"), missing) == [
        "CLIP not run: no weights on this machine: name a file in observe.feature_weights"
    ]


def test_a_feature_that_is_not_asked_for_or_half_stored(run):
    config = run.meta["config"]
    observe = {**config["resolved"].get("observe", {}), "features": ["dino"]}
    other = Run(
        run.path, {**run.meta, "config": {**config, "resolved": {**config["resolved"], "observe": observe}}}
    )
    assert stored_features(run) == ["dino", "split_product"] and stored_features(other) == ["dino"]
    last = run.parts("features/dino")[-1]
    data = last.read_bytes()
    last.unlink()
    try:
        with pytest.raises(
            UserError, match=rf"features/dino: expected {last.name}, found none: run --stage observe"
        ):
            stored_features(run)
    finally:
        last.write_bytes(data)
