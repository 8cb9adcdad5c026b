"""Faults in the middle of a run: recorded and left out, made again, or gone on with in smaller batches."""

import numpy as np
import pytest
import torch

from analysis.observe.stage import observe
from analysis.tables.stage import measure
from probes.errors import UserError
from probes.runs.parts import read_identity
from probes.runs.run import Run
from tests.probes.conftest import Device, generated, settings, stored, with_pipeline

QUICK = {
    "sampler": {"steps": 1},
    "capture": {"sites": ["text.final", "latent.final", "unet.mid"], "words": False},
    "observe": {"engine": "toyworld-checker"},
    "measure": {"bootstrap": 20, "permutations": 20},
}


def small(saved, **over):
    return settings(saved(), **{**QUICK, **over})


@pytest.fixture(scope="module")
def whole(saved, tmp_path_factory):
    """An undisturbed run: 3 prompts, 2 seeds, parts of 2 draws, batches of 2."""
    return generated(tmp_path_factory.mktemp("whole") / "run", small(saved))


# Images at fault


def spoiled(pipe):
    """The pipeline overflows in one image, its checker replaces another, and a third is black."""
    real = type(pipe).__call__

    class Spoiled(type(pipe)):
        def __call__(self, prompt, **options):
            output = real(self, prompt, **options)
            flagged = [False] * len(prompt)
            for row, text in enumerate(prompt):
                if text == "a woman with a dog":
                    output.images[row] = np.nan
                elif text == "a man reading a book":
                    output.images[row], flagged[row] = 0, True
                elif text == "the person in a car":
                    output.images[row] = 0.001
            output.nsfw_content_detected = flagged
            return output

    pipe.__class__ = Spoiled


def test_images_at_fault_are_recorded_and_enter_no_mean(whole, saved, tmp_path, monkeypatch):
    with_pipeline(monkeypatch, spoiled)
    run = generated(tmp_path / "run", small(saved))
    monkeypatch.undo()
    found = run.samples(["prompt", "seed", "fault"]).dropna()
    assert sorted(found["prompt"].unique()) == [
        "a man reading a book",
        "a woman with a dog",
        "the person in a car",
    ]
    assert dict(found["fault"].value_counts()) == run.meta["faults"] == {"nan": 2, "filtered": 2, "black": 2}
    images = run.samples(["fault", "image"])
    assert all((row.image is None) == (row.fault == "nan") for row in images.itertuples())
    observe(run, progress=False)
    measure(run)
    observed = run.read("observed", ["sample_id", "status", "reason"]).set_index("sample_id")
    out = list(run.faults())
    assert set(observed.index[observed["status"] != "ok"]) == set(out)
    assert observed.loc[out[0], "reason"] == "image left out: its latents or pixels are no finite numbers"
    pictures = run.table("image_similarities")
    undefined = pictures[pictures["ssim"].isna()]
    assert len(undefined) == 3 * 2 * 2 and len(pictures) == 18  # two of the three pairs of each draw
    assert undefined["reason"].str.startswith("image left out: ").all()
    disparity = run.table("disparity").set_index(["site", "metric", "step", "pair"])["n"]
    # one prompt of three, two seeds, is left to each pair, at every site; no image has objects
    assert set(disparity.drop(["objects", "objects.no_persons"])) == {2}
    assert not set(run.read("objects", ["sample_id"])["sample_id"]) & set(out)
    # what is left is as in a run without faults
    both = [run.read("captures"), whole.read("captures")]
    for side in both:
        side.set_index(["triplet", "seed", "pair"], inplace=True)
    fine = both[0].loc[(0, 0, "neutral-masculine"), "latent.final:cosine"]
    np.testing.assert_array_equal(fine, both[1].loc[(0, 0, "neutral-masculine"), "latent.final:cosine"])


def test_latents_that_overflow_are_seen_where_pixels_are_not(saved, tmp_path, monkeypatch):
    """Clamping makes white of an infinite number."""

    def endless(pipe):
        decode = pipe.vae.decode

        def finite(latents, **options):
            return decode(latents.nan_to_num(0, 0, 0), **options)

        real = pipe.scheduler.step

        def step(noise, timestep, latents, **options):
            result = real(noise, timestep, latents, **options)
            result[0][1] = torch.inf
            return result

        monkeypatch.setattr(pipe.vae, "decode", finite)
        monkeypatch.setattr(pipe.scheduler, "step", step)

    with_pipeline(monkeypatch, endless)
    run = generated(tmp_path / "run", small(saved, prompts=["a {person}"], seeds=[0]))
    assert run.samples(["fault"])["fault"].fillna("").tolist() == ["", "nan", ""]


# No room on the device


FOUR = {"generate": {"part_triplets": 4, "batch_triplets": 4}}


def test_without_room_the_batch_is_halved(saved, tmp_path, monkeypatch, capsys):
    """What is stored is what a run stores that began with the smaller batch, but for the size that was asked for."""
    with_pipeline(monkeypatch, Device(images=3))
    run = generated(tmp_path / "run", small(saved, **FOUR))
    assert run.meta["batch_triplets"] == [4, 1]
    assert run.config.generate.batch_triplets == 4  # as asked: the same command goes on
    assert capsys.readouterr().err.count("goes on with") == 2
    monkeypatch.undo()
    for kind in ("samples", "captures"):
        assert [read_identity(file)["batch"] for file in run.parts(kind)] == [1, 1]
    generate = {"generate": {"part_triplets": 4, "batch_triplets": 1}}
    one = generated(tmp_path / "one", small(saved, **generate))
    columns = ["sample_id", "fault", "image"]
    assert run.samples(columns).equals(one.samples(columns))
    for column in run.columns("captures"):
        mine, other = (side.read("captures", [column])[column].tolist() for side in (run, one))
        np.testing.assert_array_equal(np.array(mine), np.array(other))
    before = stored(run.path)
    generated(run.path, small(saved, **FOUR))
    assert stored(run.path) == before and Run.open(run.path).meta["batch_triplets"] == [4, 1]


def test_without_room_for_one_triplet(saved, tmp_path, monkeypatch):
    with_pipeline(monkeypatch, Device(images=2))
    with pytest.raises(
        UserError, match="expected room on the device for the 3 images of one triplet and seed"
    ):
        generated(tmp_path / "run", small(saved))
