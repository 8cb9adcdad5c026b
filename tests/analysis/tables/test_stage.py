"""From a run directory to its tables."""

import numpy as np
import pandas as pd
import pytest
from skimage.metrics import structural_similarity

from analysis.metrics.registry import definition
from analysis.tables.similarities.gap import DISPARITY_COLUMNS, GAP_COLUMNS
from analysis.tables.stage import measure
from probes.runs.run import Run
from tests.analysis.synthetic_run import configure, write_run


def test_the_tables_are_there_with_their_columns(run, pairs):
    assert tuple(run.table("disparity").columns) == DISPARITY_COLUMNS
    assert tuple(run.table("gap").columns) == GAP_COLUMNS
    for name in ("disparity", "gap"):
        csv = pd.read_csv(run.path / "tables" / f"{name}.csv", keep_default_na=False, na_values=[""])
        assert len(csv) == len(run.table(name))
        versions = {definition(metric).version for metric in set(pairs["metric"])}
        assert set(run.table(name)["version"]) == versions
    assert set(pairs["space"]) == {"prompt", "denoising", "image"}
    times = run.table("timesteps")
    assert times["step"].tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(
        times["timestep"], run.read("captures", ["timesteps"])["timesteps"].iloc[-1]
    )


def test_bytes_do_not_depend_on_the_parts(run, tmp_path):
    other = Run.open(write_run(tmp_path / "other", prompts=9, steps=4, part_triplets=2))
    for _ in range(2):
        measure(other)
        for name in ("image_similarities.parquet", "disparity.csv", "gap.csv", "gap.parquet"):
            assert (other.path / "tables" / name).read_bytes() == (run.path / "tables" / name).read_bytes()


def test_optional_comparisons_of_pictures_stand_beside_the_others(tmp_path):
    asked = ["ssim_full"]
    path = write_run(tmp_path / "run", prompts=3, steps=2)
    for file in (path / "captures").iterdir():
        file.unlink()
    run = Run.open(path)
    configure(run, measure={"bootstrap": 20, "permutations": 16})
    measure(run)
    plain = run.table("image_similarities")
    configure(run, measure={"bootstrap": 20, "permutations": 16, "pictures": asked})
    measure(run)
    images = run.table("image_similarities")
    assert images.columns.tolist()[3:] == ["ssim", "diff_pix", "ssim_full", "reason"]
    pd.testing.assert_frame_equal(images.drop(columns=asked), plain)
    for row in images.head(10).itertuples():
        names = (f"t{row.triplet:05}-s{row.seed}-{name}" for name in row.pair.split("-"))
        a, b = (np.asarray(run.image(name).convert("L")) for name in names)
        _, full = structural_similarity(a, b, data_range=255, full=True)
        assert row.ssim_full == pytest.approx(full.mean(), abs=1e-6)
    assert (images["ssim_full"] != images["ssim"]).all()
    gaps = run.table("gap")
    assert set(gaps["metric"]) == {"ssim", "diff_pix", *asked}
    assert set(gaps.loc[gaps["metric"] == "ssim_full", "version"]) == {"ssim_full/1"}


def test_no_contrast_gives_an_empty_table(tmp_path):
    run = Run.open(write_run(tmp_path / "run", prompts=2, steps=2, contrasts=()))
    measure(run)
    assert (run.path / "tables" / "gap.csv").read_text() == ",".join(GAP_COLUMNS) + "\n"
    assert len(run.table("gap")) == 0
