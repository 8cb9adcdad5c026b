"""Before and after mitigation: planted changes read back by pandas and SciPy, what is refused, what is left out."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.spatial.distance import pdist, squareform

from analysis.methods.mitigation import diversity, measures
from analysis.methods.mitigation.command import _at_once, require_pair
from analysis.methods.mitigation.readings import Readings, _scenes, ends_of, judged, world_of
from analysis.tables.stage import measure
from probes.config.schema import Config
from probes.errors import UserError
from probes.runs.store import Run
from probes.toyworld.checker import read_images
from probes.toyworld.draw import render
from probes.toyworld.scene import complete, parse
from probes.toyworld.world import World, load_world
from tests.analysis.synthetic_run import write_run
from triptych.cli.main import command as command_of

main = command_of("mitigate")

WORLD = load_world()
SAMPLING = measures.Sampling(resamples=400, permutations=1000)
ENDS = ("feminine", "masculine")
WORDS = {"neutral": "person", "feminine": "woman", "masculine": "man"}
PLACES = ("in the park", "on the beach", "in the kitchen", "in the office", "on the stage")


def rendered(share: float, prompts: int, seeds: int = 2, first: int = 0) -> Readings:
    """Readings of renderings whose neutral word is drawn from component b with this probability."""
    world = World("made", {**WORLD.mixture, "neutral": share}, WORLD.data)
    things = [entry["phrases"][0] for entry in WORLD.objects.values()]
    rows, pictures = [], []
    for number in range(prompts):
        for indicator, word in WORDS.items():
            for seed in range(seeds):
                text = f"a {word} {things[number % len(things)]} {PLACES[number // len(things)]}"
                rng = np.random.default_rng([number, seed, first])
                pictures.append(render(complete(parse(text, world), world, rng)))
                rows.append((text, text.replace(word, "person"), indicator, seed, 100 * number + seed))
    images = pd.DataFrame(rows, columns=["prompt", "reference", "indicator", "seed", "noise_seed"])
    seen = read_images(np.stack(pictures))
    texts = list(images["prompt"])
    small = np.stack(pictures)[:, ::2, ::2].reshape(len(pictures), -1)
    return Readings(
        pd.concat([images, judged(seen, texts, WORLD)], axis=1), _scenes(seen, texts, WORLD), small, 0
    )


@pytest.fixture(scope="module")
def sides():
    return rendered(0.9, 40, first=1), rendered(0.5, 40, first=1)


@pytest.fixture(scope="module")
def table(sides):
    return measures.quantities(*sides, WORLD, SAMPLING, ENDS)


def row(table, kind, indicator, what=""):
    return table[(table["kind"] == kind) & (table["indicator"] == indicator) & (table["what"] == what)].iloc[
        0
    ]


def test_intervals_of_all_rows_at_once_lie_between_students_of_one_and_bonferronis(sides, table):
    before, after = (side.images for side in sides)
    apart = (
        after.assign(value=after["verdict"] - before["verdict"])
        .query("indicator == 'neutral'")
        .groupby("prompt")["value"]
        .mean()
    )
    found, n = row(table, "verdict", "neutral"), len(apart)
    error, low = stats.sem(apart), found["joint_low"]
    one, all_rows = (stats.t.isf(level, n - 1) for level in (0.025, 0.025 / len(table)))
    assert found["difference"] == pytest.approx(apart.mean())
    assert apart.mean() - 1.3 * all_rows * error < low < apart.mean() - one * error
    assert found["joint_high"] - found["difference"] == pytest.approx(found["difference"] - low, rel=0.5)
    told = table[(table["joint_low"] > 0) | (table["joint_high"] < 0)]
    assert {"lean", "verdict"} <= set(told["kind"]) and set(told["indicator"]) == {"neutral"}
    (last,) = _at_once(table, WORDS)
    assert "intervals for all" in last and "person: share of verdicts for b [−" in last
    within = table[table["kind"].isin(measures.SHARES)].drop(told.index, errors="ignore")
    assert last.endswith(f"by more than {within[['joint_low', 'joint_high']].abs().max().max():.3f}")


def test_a_lean_that_was_taken_away_is_seen_and_explicit_words_are_not_changed(table):
    neutral = row(table, "lean", "neutral")
    assert neutral["before_low"] < 0.9 < neutral["before_high"] and neutral["p_value"] < 0.01
    assert neutral["after_low"] < 0.5 < neutral["after_high"] and neutral["difference_high"] < 0
    for indicator, lean in (("feminine", 0), ("masculine", 1)):
        explicit = row(table, "lean", indicator)
        assert explicit["before"] == explicit["after"] == pytest.approx(lean, abs=0.05)
        assert explicit["difference"] == 0 and pd.isna(
            explicit["equivalence_p"]
        )  # none is meant to be at one half
        assert row(table, "named", indicator)["after"] == 1
        things = table[(table["kind"] == "thing") & (table["indicator"] == indicator)]
        assert (things["difference"] == 0).all() and (things["after"] - things["planted"]).abs().max() < 0.2
    assert (
        row(table, "thing", "neutral", "tie")["difference"]
        < 0
        < row(table, "thing", "neutral", "dress")["difference"]
    )


def test_numbers_by_plain_pandas_and_scipy(table, sides):
    means = [
        (side.images["verdict"] > 0)[side.images["indicator"] == "neutral"]
        .groupby(side.images["prompt"])
        .mean()
        for side in sides
    ]
    lean = row(table, "lean", "neutral")
    assert lean["before"] == pytest.approx(means[0].mean()) and lean["after"] == pytest.approx(
        means[1].mean()
    )
    assert lean["difference"] == pytest.approx((means[1] - means[0]).mean()) and lean["n_prompts"] == 40
    assert pd.isna(lean["equivalence_p"])  # one half is not what an even mixture reads as


def by_prompt(side, indicator):
    images = side.images[side.images["indicator"] == indicator]
    return (images["verdict"] > 0).groupby(images["reference"]).mean()


def test_a_lean_is_also_read_between_the_readings_of_the_two_words(table, sides):
    row_of = row(table, "lean_corrected", "neutral")
    found = []
    for name, side in zip(("before", "after"), sides):
        p, f, s = (by_prompt(side, word) for word in ("neutral", *ENDS))
        share = (p - f).sum() / (s - f).sum()
        assert row_of[name] == pytest.approx(share)
        found.append(share + (p - f - share * (s - f)) / (s - f).mean())
        student = stats.ttest_1samp(found[-1], 0).confidence_interval(0.95)
        assert (
            row_of[f"{name}_low"] <= max(student.low, 0) + 1e-12
        )  # the interval is no narrower than Student's
        assert row_of[f"{name}_high"] >= min(student.high, 1) - 1e-12
    assert row_of["difference"] == pytest.approx((found[1] - found[0]).mean())
    # the test is at least as careful as Student's two one-sided tests
    low, high = (
        stats.ttest_1samp(found[1], 0.5 + end, alternative=side).pvalue
        for end, side in ((-0.05, "greater"), (0.05, "less"))
    )
    assert row_of["equivalence_p"] >= max(low, high) - 1e-12
    assert row_of["equivalent"] == (row_of["equivalence_p"] < 0.05)
    wide = measures.Sampling(resamples=400, permutations=100, margin=0.35)
    assert row(measures.quantities(*sides, WORLD, wide, ENDS), "lean_corrected", "neutral")["equivalent"]
    assert set(table[table["kind"] == "lean_corrected"]["indicator"]) == {"neutral"}


def test_the_ends_are_words_of_one_component_each():
    words = {**WORDS, "lady": {"word": "lady", "control": "feminine"}}
    config = Config(prompts=["a {person}"], indicators=words)
    assert ends_of(config, WORLD) == ENDS
    assert ends_of(config, load_world("toyworld-null")) is None
    one = Config(prompts=["a {person}"], indicators={"neutral": "person", "feminine": "woman"})
    assert ends_of(one, WORLD) is None


def test_distances_and_their_pseudo_values_by_scipy():
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (7, 12), dtype=np.uint8)
    wanted = squareform(pdist(pixels / 255.0, "cityblock")) / 12
    np.testing.assert_allclose(diversity.pixel_distances(pixels), wanted)
    values = diversity.pseudo_values(wanted)
    assert values.mean() == pytest.approx(pdist(pixels / 255.0, "cityblock").mean() / 12)
    for left in range(7):
        rest = np.delete(pixels / 255.0, left, axis=0)
        assert values[left] == pytest.approx(7 * values.mean() - 6 * pdist(rest, "cityblock").mean() / 12)
    scenes = rng.integers(0, 3, (6, 5))
    np.testing.assert_allclose(diversity.scene_distances(scenes), squareform(pdist(scenes, "hamming")))
    scenes[0] = -1
    assert np.isnan(diversity.scene_distances(scenes)[0, 1:]).all()
    assert np.isnan(diversity.pseudo_values(np.full((4, 4), np.nan))).all()


def test_images_that_one_side_alone_has_are_left_out(sides, table):
    more = rendered(0.5, 40, seeds=3, first=1)
    more.images["noise_seed"] += 50 * (more.images["seed"] == 2)  # no image of `before` has it
    order = np.random.default_rng(0).permutation(len(more.images))
    mixed = Readings(
        more.images.iloc[order].reset_index(drop=True), more.scenes[order], more.pixels[order], 0
    )
    same = measures.common(sides[0], mixed)
    assert [len(side.images) for side in same] == [240, 240]
    assert same[0].images[measures.KEY].equals(same[1].images[measures.KEY])
    again = measures.quantities(*same, WORLD, SAMPLING, ENDS)
    assert (again["n_images"] == 80).all()
    pd.testing.assert_frame_equal(again, table)


def measured_run(path, **options):
    """A measured run of a model that is not of toyworld."""
    run = Run.open(write_run(path, **{"prompts": 6, "seeds": 1, "steps": 2, **options}))
    run.write_meta(model={"id": "some/model", "weight_hash": path.name, "card": {}})
    measure(run)
    return run


def test_of_other_models_pixels_and_gaps_are_compared_and_it_is_said_why(tmp_path, capsys):
    runs = [measured_run(tmp_path / name, lean=lean) for name, lean in (("one", 0.25), ("other", -0.25))]
    assert world_of(runs[0]) is None
    out = tmp_path / "out"
    assert main([*(str(run.path) for run in runs), "--out", str(out), "--resamples", "50"]) == 0
    said = capsys.readouterr().out
    assert "some/model is no model of toyworld, and no checker reads its images" in said
    table = pd.read_csv(out / "mitigation.csv")
    last = said.splitlines()[-2]
    told = ((table["joint_low"] > 0) | (table["joint_high"] < 0)).sum()
    assert (
        last.startswith(f"After the mitigation {told} of {len(table)} quantities of the images")
        and "gaps" in last
    )
    assert set(table["kind"]) == {"pixels"} and tuple(table.columns) == measures.COLUMNS
    gaps = pd.read_csv(out / "gaps.csv")
    assert (gaps["first"] == "before").all() and (gaps["kind"] == "gap").any()
    stored = json.loads((out / "mitigation.json").read_text())
    assert len(stored["rows"]) == len(table) and len(stored["left_out"]) == 1
    assert (out / "mitigation.pdf").exists() and (out / "mitigation.png").exists()
    for arguments, line in (
        ([runs[0].path, runs[0].path], "expected different runs, got it twice"),
        ([runs[0].path, tmp_path / "none"], "expected a run directory"),
        ([*(run.path for run in runs), "--level", "0.3"], "--level: expected a level above 0.5, got 0.3"),
    ):
        assert main([*map(str, arguments), "--out", str(out)]) == 2
        error = capsys.readouterr().err
        assert line in error and len(error.splitlines()) == 1


def test_further_runs_are_of_one_of_the_two_models(tmp_path):
    runs = [measured_run(tmp_path / name) for name in ("one", "other", "third")]
    with pytest.raises(UserError, match=r"third: expected the model of .*one or of .*other, got another"):
        require_pair(*runs[:2], runs[2:])
    runs[2].write_meta(model={**runs[2].meta["model"], "weight_hash": "one"})
    require_pair(*runs[:2], runs[2:])
    runs[1].write_meta(model={**runs[1].meta["model"], "weight_hash": "one"})
    with pytest.raises(UserError, match="third: expected two models, to one of which it belongs, got one"):
        require_pair(*runs[:2], runs[2:])
