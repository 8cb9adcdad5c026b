"""Generation: shared draws, images as the plain pipeline gives them, runs that go on from anywhere."""

import errno
import os
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from probes.config.schema import Config
from probes.errors import UserError
from probes.execution import workers
from probes.models import loading
from probes.runs.rows import png_bytes
from probes.runs.run import Run
from probes.stages import batch_generation
from tests.probes.conftest import generated, settings, stored


@pytest.fixture(scope="module")
def whole(saved, tmp_path_factory):
    """An undisturbed run: 3 prompts, 2 seeds, parts of 2 draws."""
    return generated(tmp_path_factory.mktemp("whole") / "run", settings(saved()))


def test_a_run_holds_what_was_planned(whole):
    run = Run.open(whole.path)
    samples, captures, words = run.samples(), run.read("captures"), run.read("words")
    assert (run.status, run.meta["parts"], len(run.parts("samples"))) == ("generated", 3, 3)
    assert (len(samples), samples["sample_id"].nunique()) == (18, 18)
    assert captures.groupby(["triplet", "seed"])["pair"].agg(list).map(tuple).unique().tolist() == [
        ("neutral-feminine", "neutral-masculine", "feminine-masculine")
    ]
    assert (captures["timesteps"].map(len) == 2).all()
    assert (captures["unet.mid:cosine"].map(len) == 2).all()
    assert (captures["latent.final:cosine"].map(len) == 1).all()
    assert {f"text.final:cosine_{readout}" for readout in ("sequence", "eos", "words")} <= set(captures)
    assert len(words) == samples["words"].map(len).sum()
    assert (words["heat"].map(len) == 256).all()
    np.testing.assert_allclose(words["heat"].map(max), words["peak"])


def test_images_are_those_of_the_plain_pipeline(whole, saved):
    pipe = loading.load(loading.resolve(str(saved())), device="cpu").pipe
    run = Run.open(whole.path)
    torch.set_num_threads(run.meta["device"]["threads"])  # sums over more or fewer threads round otherwise
    samples = run.samples()
    first = samples[:6]  # the first batch: two draws of three
    images = pipe(
        prompt=list(first["prompt"]),
        generator=[torch.Generator().manual_seed(int(seed)) for seed in first["noise_seed"]],
        num_inference_steps=2,
        output_type="np",
    ).images
    stored_images = Run.open(whole.path).samples(["image"])["image"]
    assert [png_bytes(image) for image in images] == [entry["bytes"] for entry in stored_images[:6]]


@pytest.mark.parametrize("scheduler", [None, "euler_ancestral", "ddpm"])
def test_members_share_every_draw(saved, tmp_path, scheduler):
    """The same word twice gives the same image, also where the scheduler adds noise at every step."""
    config = settings(
        saved(),
        indicators={"neutral": "person", "twin": "woman", "other": "man"},
        prompts=["a {person} with a dog"],
        sampler={"steps": 3, "scheduler": scheduler},
    )
    # a configuration that is read refuses such twins
    config = config.model_copy(
        update={"indicators": {**config.indicators, "twin": config.indicators["neutral"]}}
    )
    run = Run.open(generated(tmp_path, config).path)
    images = {
        sample.sample_id: sample.image["bytes"] for sample in run.samples(["sample_id", "image"]).itertuples()
    }
    assert images["t00000-s0-neutral"] == images["t00000-s0-twin"]
    assert images["t00000-s0-neutral"] != images["t00000-s0-other"]
    assert images["t00000-s0-neutral"] != images["t00000-s1-neutral"]
    captures = run.read("captures").set_index("pair")
    sites = [column for column in captures if ":" in column]
    values = np.concatenate([captures.loc["neutral-twin", site].iloc[0] for site in sites])
    np.testing.assert_allclose(values, 1, atol=1e-6)
    assert captures.loc["neutral-other", "x0_pred:cosine"].iloc[0].min() < 0.9999


@pytest.mark.parametrize(
    "kind", ["sd1", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("sd2", "sdxl"))]
)
def test_every_architecture(saved, tmp_path, kind):
    run = Run.open(generated(tmp_path, settings(saved(kind), seeds=[0], prompts=["a {person}"])).path)
    calls = 3 if kind == "sd1" else 2  # PNDM calls the UNet once more than it has steps
    captures = run.read("captures")
    assert (captures["timesteps"].map(len) == calls).all()
    assert (captures["noise_pred.guided:cosine"].map(len) == calls).all()
    assert run.meta["model"]["pipeline"].startswith(
        "StableDiffusionXL" if kind == "sdxl" else "StableDiffusionP"
    )
    assert run.config.sampler.guidance_scale == (5.0 if kind == "sdxl" else 7.5)
    assert len(run.read("words")) == 3 * 2
    second = run.samples(
        ["word_positions", "word_positions_2"]
    ).dropna()  # in the tokens of a second text encoder
    assert len(second) == (3 if kind == "sdxl" else 0)
    assert all(str(row.word_positions) == str(row.word_positions_2) for row in second.itertuples())


WHOLE = {"keep_places": "all"}


def test_pooled_activations_are_stored_by_group_of_positions(saved, tmp_path):
    config = settings(
        saved(),
        seeds=[0],
        prompts=["{person} in a hat"],
        capture={"words": False, "sites": ["latent.final"], "keep": ["unet.mid", "text.final"]} | WHOLE,
    )
    pooled = config.capture.model_copy(update={"pool": config.capture.keep})
    run = Run.open(generated(tmp_path, config.model_copy(update={"capture": pooled})).path)
    kept = run.read("kept").set_index(["sample_id", "site"])
    rows = [row for table in run.part_tables("pooled") for row in table.to_pylist()]
    groups = ("start", "word", "after", "end", "padding")  # nothing stands before the word
    assert [row["group"] for row in rows[:6]] == [*groups, None] and len(rows) == 3 * 6
    positions = {"start": [0], "word": [1], "after": [2, 3, 4], "end": [5]}
    for row in rows:
        one = kept.loc[(row["sample_id"], row["site"])]
        values = one["values"].reshape(one["shape"])
        at = positions.get(row["group"], slice(6, None))
        expected = values.mean((2, 3)) if row["group"] is None else values[:, at].mean(1)
        assert list(row["call"]) == list(one["call"])
        np.testing.assert_allclose(row["values"], expected.ravel(), rtol=1e-4, atol=1e-5)


def test_word_maps_by_another_definition(whole, saved, tmp_path):
    run = Run.open(generated(tmp_path, settings(saved(), capture={"definition": "self-refined"})).path)
    ours, daam = run.read("words"), whole.read("words")
    assert set(ours["definition"]) == {"self-refined"} and set(daam["definition"]) == {"daam"}
    assert list(ours["word"]) == list(daam["word"])
    assert not np.allclose(ours["heat"].iloc[0], daam["heat"].iloc[0], rtol=0.1)
    assert run.samples(["image"]).equals(whole.samples(["image"]))


class Crash(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("fault", [Crash(), OSError(errno.ENOSPC, "No space left on device")], ids=type)
def test_a_crash_or_a_full_disk_at_any_write_is_gone_on_from(whole, saved, tmp_path, monkeypatch, fault):
    config, expected = settings(saved()), stored(whole.path)
    real, crashes = os.write, 0
    for at in (1, 2, 4, 7, 11, 16, 60):  # operations, counted anew as the run goes on
        seen = 0

        def failing(*args, at=at):
            nonlocal seen
            seen += 1
            if seen == at:
                raise fault
            return real(*args)

        monkeypatch.setattr(os, "write", failing)
        before = stored(tmp_path)
        try:
            generated(tmp_path, config)
        except (Crash, UserError) as error:
            if error is not fault:
                assert "expected room on the disk, got `No space left on device`" in str(error)
                assert str(error).endswith("finished parts are kept")
            crashes += 1
        else:
            break
        finally:
            monkeypatch.undo()
        after = stored(tmp_path)
        assert {name: after[name] for name in before} == before  # nothing finished is lost or altered
        assert all(expected[name] == data for name, data in after.items())
    assert crashes >= 3
    assert stored(tmp_path) == expected


def test_a_batch_of_a_gpu_is_as_large_as_what_the_second_batch_took(saved, monkeypatch):
    """Of 40 GB free half are used: 100 images of 0.2 GB, or the 8 triplets of a part."""
    pipe = loading.load(loading.resolve(str(saved())), device="cpu").pipe
    loaded = SimpleNamespace(device="cuda:0", pipe=pipe)
    config = Config(prompts=["a {person}"], sampler={"height": 512, "width": 512})
    samples = [SimpleNamespace(triplet="t", seed=0)] * 3
    peaks, generated = iter([9e9, 1.6e9]), []
    monkeypatch.setattr(
        batch_generation,
        "generate_batch",
        lambda pipe, config, triplets, tick: generated.append(len(triplets[0])),
    )
    for name, value in {
        "reset_peak_memory_stats": lambda device: None,
        "memory_allocated": lambda device: 1e9,
        "max_memory_allocated": lambda device: next(peaks),
        "mem_get_info": lambda device: (40e9, 80e9),
        "empty_cache": lambda: None,
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    measured = batch_generation.measure_image_bytes(loaded, config, samples)
    assert (measured, generated) == (pytest.approx(0.2e9), [3, 3])
    assert workers.images_per_batch(pipe, "cuda:0", config, measured) == pytest.approx(100)
    assert workers.triplets_per_batch(pipe, "cuda:0", config, measured) == 8
    loaded.device = "cpu"
    assert batch_generation.measure_image_bytes(loaded, config, samples) is None
