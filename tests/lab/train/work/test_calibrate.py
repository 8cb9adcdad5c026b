"""Calibrating `toyworld-work`: what is read of its drawings, and how its own predictions are moved."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from lab.train.base.measure import benchmark_pipeline
from lab.train.base.tokenizer import tokenizer_with
from lab.train.located.lessons import Lessons
from lab.train.work import calibrate, calibration_lessons
from lab.train.work.generated_frequencies import generated_frequencies
from lab.train.work.lessons import sketches
from lab.train.work.measure import verdict_rates
from probes.errors import UserError
from probes.toyworld import WEIGHTS, WORK
from probes.toyworld.checker import SKIN_NAMES
from probes.toyworld.work.assemble import BASES, new_words, work_pipeline
from probes.toyworld.world import load_world


@pytest.fixture(scope="module")
def world():
    return load_world(WORK)


def readings_of(world, images, *, lean=0.0, skin=None):
    """Of each profession as was planted, but for so much more of component *b* and of the third skin for the first."""
    skin = skin or dict.fromkeys(world.professions, 0.0)
    rates, rows = verdict_rates(world), []
    for name, one in world.professions.items():
        share = rates["a"] + (rates["b"] - rates["a"]) * (one.lean + lean)
        of_b = round(images * share)
        first, second = round(images * (one.skins[0] - skin[name])), round(images * one.skins[1])
        skins = np.repeat(SKIN_NAMES, (first, second, images - first - second))
        verdicts = np.where(np.arange(images) < of_b, 2.0, -2.0)
        rows.append(pd.DataFrame({"profession": name, "verdict": verdicts, "skin": skins}))
    return pd.concat(rows).assign(group="neutral", seed=range(images * len(world.professions)))


def test_what_was_drawn_as_planted_is_taken_for_chance(world):
    now = generated_frequencies(readings_of(world, 400), world)
    for name, one in world.professions.items():
        assert now[name].lean == pytest.approx(one.lean, abs=1e-9)
        assert now[name].skins == pytest.approx(one.skins, abs=1e-9)


def test_what_was_drawn_otherwise_is_believed_but_for_what_chance_would_do(world):
    """Deviations of 0.04 that all professions share, or that differ in sign from one to the next; variances by hand."""
    images, away = 2000, 0.04
    names = list(world.professions)
    alike, apart = (
        readings_of(world, images, skin={name: away * sign for name, sign in zip(names, signs)})
        for signs in (np.ones(20), np.resize((1, -1), 20))
    )
    for readings, kind in ((alike, "shared"), (apart, "own")):
        now, noise = generated_frequencies(readings, world), 0.0
        for row, one in enumerate(world.professions.values()):
            step = away * (-1) ** (row * (kind == "own"))
            read = np.add(one.skins, (-step, 0, step))
            noise += (read * (1 - read)).sum() / images
        share = (
            1 - noise / 20 / 20 / (2 * away**2) if kind == "shared" else 1 - noise * 0.95 / 20 / (2 * away**2)
        )
        assert 0.7 < share < 1
        for row, (name, one) in enumerate(world.professions.items()):
            step = share * away * (-1) ** (row * (kind == "own"))
            assert np.subtract(now[name].skins, one.skins) == pytest.approx([-step, 0, step], abs=1e-3)
            assert now[name].lean == pytest.approx(one.lean, abs=1e-9)


@pytest.mark.lab
def test_readings_of_shared_seeds_tell_how_far_other_weights_are_from_those_before(world):
    """Many images were drawn before; a tenth of the seeds, drawn again, tell that every other lean is less by 0.1."""
    before = readings_of(world, 4000, lean=0.04).reset_index(drop=True)
    some = np.random.default_rng(0).random(len(before)) < 0.1
    after, rates = before[some].copy(), verdict_rates(world)
    names = [name for name, one in world.professions.items() if 0.2 < one.lean < 0.9]
    for name in names[::2]:
        of_one = after[after["profession"] == name]
        of_b = of_one.index[of_one["verdict"] > 0]
        after.loc[of_b[: round(0.1 * (rates["b"] - rates["a"]) * len(of_one))], "verdict"] = -2.0
    moved, alone = generated_frequencies(after, world, before), generated_frequencies(after, world)
    expected = {name: world.professions[name].lean + 0.04 - 0.1 * (name in names[::2]) for name in names}
    worst = [max(abs(found[name].lean - expected[name]) for name in names) for found in (moved, alone)]
    assert worst[0] < 0.01 < worst[1]  # of these seeds alone chance is told with the rest
    with pytest.raises(
        UserError, match="expected seeds that the readings before share, got 0: read the same"
    ):
        generated_frequencies(after, world, before[~some])


def test_a_profession_of_which_no_skin_was_read_is_one_line(world):
    readings = readings_of(world, 50)
    readings.loc[readings["profession"] == "baker", "skin"] = ""
    with pytest.raises(
        UserError,
        match=r"^profession baker: expected images with a skin, got none among those read: train it",
    ):
        generated_frequencies(readings, world)


def exact_velocity(noisy, clean, chances, kept):
    """By NumPy: the velocity towards the mean of clean latents ``(k, 4, 16, 16)`` under Bayes' rule."""
    distance = np.square(noisy[None] - np.sqrt(kept) * clean).sum((1, 2, 3)) / (2 * (1 - kept))
    weight = np.asarray(chances) * np.exp(distance.min() - distance)
    mean = np.tensordot(weight / weight.sum(), clean, 1)
    return (np.sqrt(kept) * noisy - mean) / np.sqrt(1 - kept)


def test_exact_predictions_of_one_mixture_are_moved_to_exact_ones_of_another():
    rng, kept, rows = np.random.default_rng(0), 0.3, 5
    tensor = torch.from_numpy
    skins = 0.06 * rng.standard_normal((3, 4, 16, 16))
    before, after = (0.2, 0.5, 0.3), (0.6, 0.1, 0.3)
    components = 0.06 * rng.standard_normal((2, 4, 16, 16))
    noisy = np.sqrt(kept) * skins[0] + np.sqrt(1 - kept) * rng.standard_normal((rows, 4, 16, 16))
    even, scale = torch.full((rows, 3), 1 / 3).double(), torch.full((rows,), kept).double()

    def said(clean, chances):
        return tensor(np.stack([exact_velocity(one, clean, chances, kept) for one in noisy]))

    nan = torch.full((rows,), np.nan).double()
    own, wanted = said(skins, before), said(skins, after)
    pair = tuple(torch.tensor([chances]).expand(rows, 3).double() for chances in (before, after))
    scene = tensor(skins).expand(rows, 3, 4, 16, 16)
    got = calibration_lessons.moved([own] * 3, tensor(noisy), scene, scale, (nan, nan), pair)
    assert (own - wanted).abs().max() > 0.005
    np.testing.assert_allclose(got, wanted, atol=1e-6)
    # components, in one skin
    velocities = [said(components, chances) for chances in ((0.7, 0.3), (1, 0), (0, 1))]
    leans = (torch.full((rows,), 0.3).double(), torch.full((rows,), 0.8).double())
    got = calibration_lessons.moved(velocities, tensor(noisy), scene, scale, leans, (even, even))
    wanted = said(components, (0.2, 0.8))
    assert (velocities[0] - wanted).abs().max() > 0.005
    np.testing.assert_allclose(got, wanted, atol=1e-6)


@pytest.mark.lab
def test_lessons_move_professions_alone_and_hold_the_rest_at_the_base(world):
    model, base = work_pipeline(WORK, WEIGHTS / WORK), benchmark_pipeline(WEIGHTS / "toyworld")[0]
    scenes = sketches(world, 12, seed=3)
    off = {
        name: replace(one, lean=0.5 * one.lean, skins=(one.skins[1], one.skins[2], one.skins[0]))
        for name, one in world.professions.items()
    }
    same, moved = (
        calibration_lessons.make_lessons(model, base, world, scenes, now, say=lambda text: None)
        for now in (world.professions, off)
    )
    works = torch.tensor([bool(name) for name in scenes.professions])
    assert works.any() and not works.all() and any(scenes.working)
    assert torch.equal(same.taught[works], same.untaught[works])
    assert torch.equal(same.taught[~works], moved.taught[~works])
    away = (moved.taught.float() - moved.untaught.float()).flatten(1).norm(dim=1)
    assert (away[works] > 0.01).float().mean() > 0.5
    row = int((~works).nonzero()[0])
    with torch.no_grad():
        tokens = base.tokenizer(scenes.plain[row], padding="max_length", max_length=32, return_tensors="pt")
        states = base.text_encoder(tokens.input_ids).last_hidden_state
        said = base.unet(same.noisy[row, None].float(), same.times[row, None], states).sample[0]
    skin = same.zones[row]
    np.testing.assert_allclose(same.taught[row].float()[:, ~skin], said[:, ~skin], atol=2e-3)
    assert torch.equal(same.taught[row][:, skin], same.untaught[row][:, skin])
    rows = calibrate.by_profession(moved, model.tokenizer, world, 9)
    assert {name: found.tolist() for name, found in rows.items()} == {
        name: [row for row in range(12) if scenes.professions[row] == name]
        for name in world.professions
        if name in scenes.professions
    }
    assert calibration_lessons.followed(model, moved, rows) == pytest.approx(0.0, abs=0.02)
    there = replace(moved, taught=(0.5 * moved.taught.float() + 0.5 * moved.untaught.float()).half())
    swapped = replace(there, untaught=there.taught, taught=there.untaught)
    assert calibration_lessons.followed(model, swapped, rows) == pytest.approx(1.0, abs=0.02)


@pytest.mark.lab
@pytest.mark.parametrize("learn", ["words", "all"])
def test_the_command_calibrates_what_is_stored_and_says_how_far_it_followed(learn, world, tmp_path, capsys):
    work, out = tmp_path / "work", tmp_path / "out"
    work.mkdir()
    readings_of(world, 800, lean=0.04, skin=dict.fromkeys(world.professions, 0.04)).to_csv(
        work / calibrate.READINGS, index=False
    )
    few = ["--drawings", "8", "--steps", "2", "--batch", "4", "--learn", learn]
    few += ["--work", str(work), "--weights", str(out)]
    assert calibrate.main(few) == 0
    said = capsys.readouterr().out
    assert "predictions of professions moved by" in said and f"{out / 'delta.safetensors'}" in said
    recipe = json.loads((out / "recipe.json").read_text())
    assert recipe["history"][-1].startswith("calibrated on 16000 images of seeds 0 to 15999: 2 steps of 4")
    lessons = Lessons.load(work / "lessons.safetensors")
    for name in ("tokenizer/tokenizer.json", "text_encoder/config.json", "triptych.json"):
        assert (out / name).read_bytes() == (WEIGHTS / WORK / name).read_bytes()
    assert len(lessons) == 8 and work_pipeline(WORK, out).unet is not None
    before, after = (load_file(folder / "delta.safetensors") for folder in (WEIGHTS / WORK, out))
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    words = {name for name in before if name.startswith("token_embedding.")}
    assert moved and (moved <= words) == (learn == "words")
    of_lessons = {
        name
        for name in world.professions
        if name in calibrate.by_profession(lessons, tokenizer_with(BASES[WORK], new_words()), world, 1)
    }
    assert {f"token_embedding.{name}" for name in of_lessons} <= moved
    assert calibrate.main([*few, "--gain", "2"]) == 2
    line = f"{work / 'lessons.safetensors'}: expected lessons made with this --gain, found others: choose another"
    assert capsys.readouterr().err.startswith(line)


@pytest.mark.lab
def test_weights_are_calibrated_again_beside_what_those_before_drew(world, tmp_path, capsys):
    first, second, out = (tmp_path / name for name in ("first", "second", "out"))
    before = readings_of(world, 800, lean=0.04)
    for folder, table in ((first, before), (second, before[before["seed"] % 4 == 0])):
        folder.mkdir()
        table.to_csv(folder / calibrate.READINGS, index=False)
    few = ["--drawings", "8", "--steps", "2", "--batch", "4", "--work", str(second), "--weights", str(out)]
    assert calibrate.main([*few, "--before", str(tmp_path / "none")]) == 2
    assert f"--before {tmp_path / 'none'}: expected the work folder of an earlier" in capsys.readouterr().err
    assert calibrate.main([*few, "--before", str(first), "--gain", "2.5"]) == 0
    said = json.loads((out / "recipe.json").read_text())["history"][-1]
    assert ", compared with 16000 of the weights before: 2 steps of 4" in said and "of 2.5 times what" in said


def test_what_is_off_by_no_more_than_chance_is_left_as_it_is(world, tmp_path, capsys):
    work, out = tmp_path / "work", tmp_path / "out"
    work.mkdir()
    readings_of(world, 100, lean=0.0).to_csv(work / calibrate.READINGS, index=False)
    assert calibrate.main(["--work", str(work), "--weights", str(out)]) == 0
    assert "2000 images: no lean and no skin is off by more than chance" in capsys.readouterr().out
    assert not out.exists()
    assert sorted(path.name for path in work.iterdir()) == [calibrate.READINGS, calibrate.OF]


def test_readings_of_other_weights_are_one_line(tmp_path, capsys):
    work, start = tmp_path / "work", tmp_path / "start"
    work.mkdir()
    (work / calibrate.OF).write_text("0" * 64 + "\n")
    shutil.copytree(WEIGHTS / WORK, start)
    assert calibrate.main(["--work", str(work), "--start", str(start)]) == 2
    said = f"{work}: expected readings of {start / 'delta.safetensors'}, found those of other weights: choose another"
    assert capsys.readouterr().err.startswith(said)
    assert (work / calibrate.OF).read_text() == "0" * 64 + "\n"
