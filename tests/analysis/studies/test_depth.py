"""Where the gap of each run opens, by depth and noise: against SciPy-free arithmetic on a planted run."""

import diffusers
import numpy as np
import pandas as pd
import pytest

from analysis.studies.compare.depth import depth_table, draw_depth, opening_lines
from analysis.studies.compare.summary import RunComparison
from analysis.tables.stage import measure
from hooks.architectures.addresses import place
from probes.errors import UserError
from probes.models.loading import noise_share
from probes.runs.run import Run
from tests.analysis.melted import melted
from tests.analysis.synthetic_run import NINE, write_run

DDIM = {
    "class": "DDIMScheduler",
    "set": {"beta_schedule": "scaled_linear", "beta_start": 0.00085, "beta_end": 0.012},
}
FLOW = {"class": "FlowMatchEulerDiscreteScheduler", "set": {"num_train_timesteps": 1000, "shift": 3.0}}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    made = Run.open(write_run(tmp_path_factory.mktemp("depth") / "one", prompts=9, steps=3, indicators=NINE))
    measure(made)
    return made


def test_noise_of_a_variance_preserving_scheduler_is_that_of_its_betas():
    betas = np.linspace(0.00085**0.5, 0.012**0.5, 1000) ** 2
    kept = np.cumprod(1 - betas)[[999, 500, 0]]
    expected = np.sqrt(1 - kept) / (np.sqrt(kept) + np.sqrt(1 - kept))
    np.testing.assert_allclose(noise_share(DDIM, [999, 500, 0]), expected, atol=1e-5)


def test_noise_of_flow_matching_is_its_sigma():
    scheduler = diffusers.FlowMatchEulerDiscreteScheduler.from_config(FLOW["set"])
    scheduler.set_timesteps(6)
    found = noise_share(FLOW, scheduler.timesteps.tolist())
    np.testing.assert_allclose(found, scheduler.sigmas[:-1].numpy(), atol=1e-6)


def test_states_between_blocks_are_those_of_the_image():
    between = ("unet.conv_in", "unet.down.0", "unet.mid", "unet.up.2", "dit.in.image", "dit.block.3.image")
    within = (
        "unet.down.0.attn.0",
        "unet.mid.resnet.1",
        "dit.in.text",
        "dit.block.3.text",
        "dit.block.3.joint",
        "latent",
    )
    assert [place(site).between_blocks for site in (*between, *within)] == [True] * 6 + [False] * 6


def test_the_table_holds_gaps_and_distances_by_depth(run):
    table = depth_table({"a": run})
    assert table["run"].eq("a").all() and table["contrast"].eq("masculine-feminine").all()
    sites = sorted(table["site"].unique(), key=place)
    assert len(sites) >= 2 and all(place(site).between_blocks for site in sites)
    depths = table.drop_duplicates("site").set_index("site")["depth"][sites]
    np.testing.assert_allclose(depths, np.linspace(0, 1, len(sites)))
    pairs = melted(run).astype({"pair": str, "site": str})
    for row in table.to_dict("records")[:: max(1, len(table) // 7)]:
        here = pairs[
            (pairs["site"] == row["site"]) & (pairs["step"] == row["step"]) & (pairs["metric"] == "cosine")
        ]
        mean = here.groupby("pair")["value"].mean()
        gap = mean["neutral-masculine"] - mean["neutral-feminine"]
        assert row["gap"] == pytest.approx(gap, abs=1e-6)
        assert row["distance"] == pytest.approx(1 - mean["feminine-masculine"], abs=1e-6)
        assert row["share"] == pytest.approx(row["gap"] / row["distance"])


def test_the_opening_is_the_cell_of_most_noise_that_is_more_than_words():
    rows = [
        ("a", 0.0, 0, 0.5),
        ("a", 0.5, 1, 0.01),
        ("a", 1.0, 1, 0.01),
        ("a", 0.0, 2, 0.001),
        ("b", 0.0, 0, 0.2),
    ]
    table = pd.DataFrame(rows, columns=["run", "depth", "step", "p_control_sites"])
    table = table.assign(contrast="m-f", site="s", noise=1 - table["step"] / 3)
    assert opening_lines(table, 0.05) == [
        "a, m-f: more than words differ first at depth 0.50 (s), noise 0.67",
        "b, m-f: more than words differ nowhere between blocks",
    ]


def test_the_figure_has_a_panel_a_run_and_is_written(run, tmp_path):
    both = pd.concat([depth_table({name: run}) for name in ("one", "other")], ignore_index=True)
    assert both["noise"].isna().all() and draw_depth(both, ("masculine", "feminine"), "neutral", 0.05) is None
    both["noise"] = 1 - both["step"] / 3  # the run has no record of its scheduler
    drawn = draw_depth(both, ("masculine", "feminine"), "neutral", 0.05)
    assert [axes.get_title() for axes in drawn.figure.axes[:2]] == ["one", "other"]
    assert draw_depth(both[both["run"] == "one"], ("masculine", "feminine"), "neutral", 0.05) is None
    lone = RunComparison([run], pd.DataFrame(), pd.DataFrame(), both.iloc[:0])
    with pytest.raises(UserError, match="contrast"):
        lone.plot_depth()
