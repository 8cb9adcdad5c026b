"""The benchmarks' parts that are quick to run: shapes, one process's answers, the arithmetic, the page."""

import json
from pathlib import Path

import pytest

from probes.runs.run import Run
from tests.analysis.synthetic_run import picture_table
from tests.benchmarks import architectures, measure_scale
from tests.benchmarks.daam_side import versions
from tests.benchmarks.launches import cost_rows
from tests.benchmarks.page import RESULTS, benchmarks_page
from tests.benchmarks.word_maps import _memory, _times, median_interval

# the most that the probe may add to a step on a GPU, and MiB an image
BARS = {
    ("sd14", "words", 1): {"launches": 12, "dispatches": 40, "waits": 0},
    ("sd14", "captures", 12): {"launches": 160, "waits": 0, "start launches": 150},
    ("sdxl", "words", 1): {"launches": 36, "dispatches": 80, "waits": 0, "held_mib": 66},
    ("sd3", "captures", 12): {"waits": 0, "start launches": 500, "held_mib": 60, "peak_mib": 60},
}
START_WAITS = (
    2  # however many encoders, layers and images: once for parts of all texts, once for hashes of some
)
PAGE = Path(__file__).parents[1] / "docs" / "validation" / "benchmarks.md"


def test_the_page_shows_the_results():
    assert PAGE.read_text("utf-8") == benchmarks_page()


@pytest.mark.parametrize("architecture", ["sd14", "sdxl", "sd3"])
def test_the_probe_adds_little_to_a_step_on_a_gpu_and_what_the_page_says(architecture):
    page = json.loads((RESULTS / "launches.json").read_text("utf-8"))
    bars = {key[1:]: bar for key, bar in BARS.items() if key[0] == architecture}
    rows, over, otherwise = cost_rows(architecture, list(bars)), [], []
    for row in rows:
        costs = row["step"] | {name: row[name] for name in ("held_mib", "peak_mib")}
        costs |= {f"start {name}": count for name, count in row["start"].items()}
        bar = {"start waits": START_WAITS} | bars[row["mode"], row["images"]]
        over += [(row["mode"], name, costs[name], most) for name, most in bar.items() if costs[name] > most]
        otherwise += [row] * (row not in page["cases"])
    assert not over, "beyond the bar"
    assert page["versions"] != versions() or not otherwise, (
        "the page has other counts, which depend on the versions of torch, diffusers and transformers and on no "
        "processor: run python -m tests.benchmarks.launches, then make the page anew"
    )


@pytest.mark.parametrize(
    ("architecture", "layers", "heads"),
    [("sd14", 16, {8}), ("sd21", 16, {5, 10, 20}), ("sdxl", 70, {10, 20})],
)
def test_a_narrow_pipeline_has_the_real_ones_layers_and_heads(architecture, layers, heads):
    pipe = architectures.build(architecture, width=0.02, size=64)
    cross = [module for name, module in pipe.unet.named_modules() if name.endswith("attn2")]
    assert len(cross) == layers and {module.heads for module in cross} == heads
    assert pipe.tokenizer.model_max_length == 77 and pipe.unet.config.sample_size == 8


def test_a_ratio_is_of_the_same_repetition():
    bare = [{"seconds": 1.0, "image_difference": 0.0}, {"seconds": 2.0, "image_difference": 0.0}]
    mode = [{"seconds": 1.1, "image_difference": 0.0}, {"seconds": 2.4, "image_difference": 1e-6}]
    found = _times(mode, bare)
    assert (found["ratio"], found["ratio_least"], found["ratio_largest"]) == (1.15, 1.1, 1.2)
    assert (found["ratio_low"], found["ratio_high"]) == (1.1, 1.2)
    assert found["image_difference"] == 1e-6
    assert _memory([130.0, 120.0], [95.0, 95.0], 3) == {
        "peak_mib": 125.0,
        "extra_mib_an_image": 10.0,
    }


def test_an_interval_of_the_median_is_that_of_the_binomial():
    # 25 values: ranks 8 and 18 hold the median in 1 - 2 P(B(25, 1/2) <= 7) = 95.7 %
    assert median_interval(range(1, 26)) == (8, 18)
    assert median_interval([3.0]) == (3.0, 3.0)


def test_the_run_for_measure_scale_is_one_that_can_be_read(tmp_path, monkeypatch):
    monkeypatch.setattr(measure_scale, "FIRST", 2)
    run = Run.open(measure_scale.write_run(tmp_path / "run", triplets=5, part_triplets=2))
    assert len(run.parts("captures")) == 3 and len(run.read("captures")) == 5 * 3
    assert len(run.read("words")) == 5 * 3 * 8 and run.read("objects")["sample_id"].nunique() == 5 * 3
    samples = run.samples(["sample_id", "triplet", "prompt_id"])
    assert samples["sample_id"].is_unique and samples["prompt_id"].nunique() == 5
    images = picture_table(run)
    assert len(images) == 5 * 3 and images["ssim"].between(-1, 1).all()
