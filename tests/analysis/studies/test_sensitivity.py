"""Choices moved over their ranges: what stays, what changes, and that each setting is the statistic it says."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from analysis.metrics.dependency import GROUPS, regroup
from analysis.metrics.registry import headline_metrics
from analysis.studies.sensitivity.findings import COLUMNS, sensitivity
from analysis.studies.sensitivity.objects import presence_findings
from analysis.studies.sensitivity.summary import summary
from analysis.tables.objects.objects import objects_of, observed_images
from analysis.tables.stage import measure
from probes.runs.store import Run
from tests.analysis.melted import melted
from tests.analysis.synthetic_objects import add_objects
from tests.analysis.synthetic_run import NINE, write_run
from triptych.cli.main import command as command_of

main = command_of("sensitivity")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    options = {"prompts": 12, "steps": 2, "seeds": 3, "lean": 0.25}
    path = write_run(tmp_path_factory.mktemp("runs") / "run", **options)
    run = Run.open(add_objects(path, **options))
    measure(run)
    return run


@pytest.fixture(scope="module")
def table(run):
    return sensitivity(run, thetas=(0.3,), sigmas=(0.0, 1.0), sigmas_human=(0.2,), least_scores=(0.5, 0.99))


def test_every_choice_that_the_run_leaves_room_for_is_moved(table):
    assert tuple(table.columns) == COLUMNS
    settings = {
        choice: list(dict.fromkeys(own["setting"])) for choice, own in table.groupby("choice", sort=False)
    }
    assert settings == {
        "readout of prompt space": ["sequence", "eos", "words"],
        "seeds": ["all", "0 alone", "1 alone", "2 alone", "without 0", "without 1", "without 2"],
        "words": ["as run", "without “person”", "without “individual”", "without “human”"],
        "resamples": ["seed 0", "seed 1", "seed 2"],
        "detector score": ["all", "at least 0.5", "at least 0.99"],
        "words whose masks guide": ["nouns", "all"],
        "human words": ["paper", "long"],
        "theta": ["0.35", "0.3"],
        "sigma": ["0.7", "1"],
        "sigma, humans": ["0.25", "0.2"],
    }
    assert (table.loc[table["of_run"], "changes"] == "").all()


def test_the_run_s_own_setting_gives_the_run_s_own_table(run, table):
    gaps = run.table("gap").set_index(["site", "metric"])
    for quantity, key in (("SSIM", ("image", "ssim")), ("z₀", ("latent.final", "cosine"))):
        for choice in ("seeds", "resamples"):
            rows = table[(table["choice"] == choice) & table["of_run"] & (table["quantity"] == quantity)]
            assert len(rows) == 1
            row, own = rows.iloc[0], gaps.loc[[key]].iloc[0]
            expected = own[["gap", "ci_low", "ci_high", "p_value", "p_control"]]
            found = row[["value", "ci_low", "ci_high", "p_value", "p_control"]]
            np.testing.assert_allclose(found.astype(float), expected.astype(float), rtol=1e-9)
        row = table[(table["choice"] == "words") & table["of_run"] & (table["quantity"] == quantity)].iloc[0]
        own = gaps.loc[[key]].iloc[0]
        expected = own[["word_gap", "word_low", "word_high", "p_control"]].astype(float)
        found = row[["value", "ci_low", "ci_high", "p_control"]].astype(float)
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_seed_alone_is_the_mean_over_its_images(run, table):
    pairs = melted(run)
    rows = pairs[(pairs["metric"] == "ssim") & (pairs["seed"] == 1)].astype({"pair": str, "value": float})
    wide = rows.pivot_table("value", "triplet", "pair")
    gap = (wide["neutral-masculine"] - wide["neutral-feminine"]).mean()
    row = table[(table["setting"] == "1 alone") & (table["quantity"] == "SSIM")].iloc[0]
    assert row["value"] == pytest.approx(gap, rel=1e-6)


def test_without_its_second_control_word_the_test_goes(table):
    rows = table[(table["choice"] == "words") & (table["quantity"] == "SSIM")].set_index("setting")
    assert np.isnan(rows.loc["without “human”", "p_control"]) and rows.loc["as run", "p_control"] < 1


def test_sensitivity_and_the_card_leave_out_words_alike(tmp_path):
    """What the card counts is what this table shows: the same p for the same word left out."""
    run = Run.open(write_run(tmp_path / "run", prompts=5, steps=2, seeds=1, indicators=NINE))
    measure(run)
    here = sensitivity(run).query("choice == 'words' and not of_run")
    there = run.table("specifications").query("not of_run")
    measures = [metric for metric in headline_metrics() if metric.needs != "features"]
    there = there[there["specification"].str.startswith("without")].assign(
        quantity=lambda t: t["metric"].map({metric.metric: metric.symbol for metric in measures})
    )
    merged = here.merge(there, left_on=["setting", "quantity"], right_on=["specification", "quantity"])
    assert len(merged) == len(there) == len(here) == 9 * len(measures)
    np.testing.assert_array_equal(merged["p_control_x"], merged["p_control_y"])


def test_presence_by_plain_pandas(run):
    objects, images = run.table("objects"), run.samples(["sample_id", "triplet", "seed", "indicator"])
    found = presence_findings(run, images, objects, ("explicitly_independent", "object")).set_index(
        "quantity"
    )
    has = images["sample_id"].isin(objects.loc[objects["lemma"] == "tie", "sample_id"])
    share = has.groupby([images["triplet"], images["indicator"]]).mean().unstack()
    assert found.loc["tie", "value"] == pytest.approx((share["masculine"] - share["feminine"]).mean())
    assert found.loc["tie", "ci_low"] > 0 and found.loc["dress", "ci_high"] < 0
    assert "person" not in found.index and found.loc["wall", "reason"] == "the same value in every prompt"


def test_scores_and_groups_move(run, table):
    score = table[table["choice"] == "detector score"].set_index(["setting", "quantity"])["value"]
    assert abs(score["at least 0.99", "all"]) <= 1 and ("at least 0.99", "dress") not in score.index
    objects, images = run.table("objects"), run.samples(["sample_id", "triplet", "seed", "indicator"])
    wide = presence_findings(run, images, regroup(objects, sigma=1.0), ("implicitly_independent",)).iloc[0]
    row = table[(table["setting"] == "1") & (table["quantity"] == "implicitly_independent")].iloc[0]
    assert row["value"] == wide["value"]


def test_whose_masks_guide_and_who_is_human_are_moved(run, table):
    """The run measured anew with each choice puts as many detections into another group as the table says."""
    before = run.table("objects")
    for choice, field, setting in (
        ("words whose masks guide", "mask_words", "all"),
        ("human words", "human_words", "long"),
    ):
        options = run.config.measure.model_copy(update={field: setting})
        _, after = objects_of(run, options)
        rows = (before["object"] >= 0).to_numpy()
        assert (
            before.loc[rows, ["sample_id", "object"]].to_numpy()
            == after.loc[after["object"] >= 0, ["sample_id", "object"]].to_numpy()
        ).all()
        number = int(
            (
                before.loc[rows, "group"].to_numpy() != after.loc[after["object"] >= 0, "group"].to_numpy()
            ).sum()
        )
        own = table[(table["choice"] == choice) & (table["quantity"] == "in another group")].set_index(
            "setting"
        )
        assert (
            own.loc[setting, "value"] == number
            and own.loc[setting, "reason"] == f"of {rows.sum()} detections"
        )
        assert own[own["of_run"]]["value"].tolist() == [0] and (own["changes"] == "").all()
        if field == "mask_words":
            assert (
                number > 0
                and f"  all: {number} of {rows.sum()} detections are in another group" in summary(table)
            )
        shares = presence_findings(run, observed_images(run), after, GROUPS).set_index("quantity")["value"]
        given = table[
            (table["choice"] == choice) & (table["setting"] == setting) & (table["kind"] == "presence")
        ]
        assert given.set_index("quantity")["value"].to_dict() == shares.to_dict()


def test_the_command_line_writes_the_table_and_says_what_changes(tmp_path, capsys):
    options = {"prompts": 10, "steps": 2, "seeds": 1, "lean": 0.02}
    path = write_run(tmp_path / "run", **options)
    measure(Run.open(path))
    assert main([str(path)]) == 0
    text = capsys.readouterr().out
    assert "readout of prompt space (sequence, eos, words)" in text and "seeds" not in text.split("\n")[0]
    assert "theta" not in text  # no objects
    written = pd.read_csv(path / "tables" / "sensitivity.csv")
    assert tuple(written.columns) == COLUMNS and not (written["choice"] == "seeds").any()


def test_bad_input_is_one_line(tmp_path, run, capsys):
    for arguments, text in (
        ([str(tmp_path)], "expected a run directory"),
        ([str(run.path), "--sigmas", "2"], "--sigmas: expected a number from 0 to 1, got '2'"),
    ):
        assert main(arguments) == 2
        error = capsys.readouterr().err
        assert text in error and error.count("\n") == 1


def test_a_run_without_contrasts_is_one_line(run, tmp_path, capsys):
    copy = shutil.copytree(run.path, tmp_path / "copy")
    record = json.loads((copy / "run.json").read_text())
    record["config"]["resolved"]["contrasts"] = []
    record.pop("checksum", None)
    (copy / "run.json").write_text(json.dumps(record))
    assert main([str(copy)]) == 2
    error = capsys.readouterr().err
    assert "expected a contrast whose findings can change" in error and error.count("\n") == 1
    assert not (copy / "tables" / "sensitivity.csv").exists()
