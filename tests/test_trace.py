"""Stage trace as a user runs it: a whole job, going on after an interruption, one clear line for what is wrong."""

import shutil

import numpy as np
import pytest
import torch
import yaml

from probes.errors import UserError
from probes.runs import schemas
from probes.runs.images import read_image
from probes.runs.run import Run
from probes.stages.trace import requirements, stage
from tests.probes.conftest import flipped, with_pipeline
from tests.tiny import tiny_pipeline
from triptych.cli.main import main

SETTINGS = {
    "indicators": {
        "neutral": "person",
        "feminine": "woman",
        "masculine": "man",
        "human": {"word": "human", "control": True},
    },
    "prompts": ["a {person} with a dog", "a {person} in a car"],
    "sampler": {"steps": 2},
    "capture": {"sites": ["latent.final"], "words": False},
    "generate": {"workers": 1, "device": "cpu", "part_triplets": 1},
    "observe": {"objects": False, "features": []},
    "measure": {"bootstrap": 10, "permutations": 10},
    "report": {"figures": False},
    "trace": {
        "sites": ["unet.mid.*.cross"],
        "windows": [[1, 2]],
        "positions": ["word"],
        "batch": 8,
        "necessity": False,
    },
}
DRAWN = (
    4 + 3 * 4 + 2 * 2 + 1 + 2
)  # unpatched; sites, complete, window, position; cuts; the complete cuts once more


def settings(folder, model, **over):
    """Write a configuration; gives its file."""
    fields = {**SETTINGS, "model": str(model)}
    for key, value in over.items():
        joined = isinstance(value, dict) and isinstance(fields.get(key), dict) and key != "indicators"
        fields[key] = {**fields[key], **value} if joined else value
    file = folder / "triplets.yaml"
    file.write_text(yaml.safe_dump(fields, sort_keys=False))
    return file


def run(file, out, *options):
    """The exit status of the command line."""
    return main([str(file), "--out", str(out), "--quiet", *options])


def stored(path):
    return {file.name: file.read_bytes() for file in sorted((path / "traced").glob("*"))}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny"
    tiny_pipeline("toy").save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def whole(model, tmp_path_factory):
    """A whole job with a trace."""
    folder = tmp_path_factory.mktemp("whole")
    assert run(settings(folder, model), folder / "run") == 0
    return folder / "run"


@pytest.fixture
def copy(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "run")


def test_a_whole_job(whole):
    traced = Run.open(whole)
    table = traced.read("traced")
    assert traced.status == "complete" and (whole / "report.html").exists()
    assert len(table) == 2 * DRAWN and list(table) == schemas.TRACED.names
    assert not table.duplicated(["triplet", "seed", "variant"]).any() and table["fault"].isna().all()
    record = traced.meta["trace"]
    assert {one["variant"] for one in record["variants"]} == {*table["variant"]}
    assert (record["rows"], record["draws"], record["config"]["batch"]) == (2 * (DRAWN - 2), 2, 8)
    images = {
        (row.triplet, row.variant): np.asarray(read_image(row.image["bytes"]), int)
        for row in table.itertuples(index=False)
    }

    def apart(first, second):
        return np.abs(first - second).max()

    for triplet in (0, 1):  # rows of a batch are the same but for the order of sums
        for donor in ("feminine", "masculine"):
            whole_image, nothing = images[triplet, f"none:{donor}"], images[triplet, "none:neutral"]
            assert apart(whole_image, nothing) > 10
            assert apart(images[triplet, f"cut:embeddings:{donor}>neutral"], whole_image) <= 1
            assert apart(images[triplet, f"complete:{donor}>neutral"], whole_image) <= 1
            assert apart(images[triplet, f"cut:before:{donor}>neutral"], nothing) <= 1
        assert apart(images[triplet, "cut:self:neutral>neutral"], nothing) <= 1
    cuts = table[table["variant"].str.startswith(("cut:before", "cut:self"))]
    assert len(cuts) == 6 and (cuts["largest_change"] <= 1e-6).all() and (cuts["writes"] > 0).all()
    for (
        triplet,
        variant,
    ), image in images.items():  # unpatched ones are those of the run, drawn in another batch
        if variant.startswith("none:"):
            sample = traced.image(f"t{triplet:05d}-s0-{variant.removeprefix('none:')}")
            assert apart(np.asarray(sample, int), image) <= 1


def test_run_again_changes_nothing_and_a_damaged_part_is_made_again(copy, whole, model, tmp_path, capsys):
    file, before = settings(tmp_path, model), stored(whole)
    assert run(file, copy, "--stage", "trace") == 0 and stored(copy) == before
    assert Run.open(copy).status == "generated"  # what comes after is to be done again
    with flipped(copy / "traced" / "part-00001.parquet"):
        assert run(file, copy, "--stage", "trace") == 0
    assert stored(copy) == before and "made again" in capsys.readouterr().err
    assert len(Run.open(copy).meta["made_again"]) == 1


def test_interrupted_and_gone_on_with(copy, whole, model, tmp_path, monkeypatch):
    """After the first part, at a batch of the second."""
    shutil.rmtree(copy / "traced")
    file, real, batches = settings(tmp_path, model), stage.generate_variants, []

    def interrupted(*arguments, **options):
        batches.append(arguments)
        if len(batches) == 6:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    monkeypatch.setattr(stage, "generate_variants", interrupted)
    assert run(file, copy, "--stage", "trace") == 130
    there = stored(copy)
    assert list(there) == ["part-00000.parquet"] and there.items() <= stored(whole).items()
    monkeypatch.undo()
    assert run(file, copy, "--stage", "trace") == 0 and stored(copy) == stored(whole)


def test_another_trace_is_refused_and_overwritten(copy, whole, model, tmp_path, capsys):
    file = settings(tmp_path, model, trace={"windows": 0, "cuts": False, "positions": []})
    for stages in (("--stage", "trace"), ()):
        assert run(file, copy, *stages) == 2
        said = capsys.readouterr().err
        assert "trace.cuts is True there, expected False: use --stage trace --overwrite" in said
        assert stored(copy) == stored(whole)
    assert run(settings(tmp_path, model, sampler={"steps": 3}), copy, "--stage", "trace") == 2
    assert "holds another run: sampler.steps" in capsys.readouterr().err
    settings(tmp_path, model, trace={"windows": 0, "cuts": False, "positions": []})
    # recipients and donors stand in several batches: the bar counts each image once
    assert main([str(file), "--out", str(copy), "--stage", "trace", "--overwrite"]) == 0
    assert "100%" in capsys.readouterr().err
    assert set(Run.open(copy).read("traced", ["kind"])["kind"]) == {"none", "site", "complete"}
    assert (copy / "samples").exists()


def test_an_image_without_numbers_is_recorded(copy, model, tmp_path, monkeypatch, capsys):
    def endless(pipe):
        real = pipe.vae.decode

        def decode(latents, **options):
            (image,) = real(latents, **options)
            image[-1] = torch.nan
            return (image,)

        monkeypatch.setattr(pipe.vae, "decode", decode)

    with_pipeline(monkeypatch, endless)
    file = settings(tmp_path, model, trace={"batch": 100, "windows": 0, "cuts": False, "positions": []})
    assert main([str(file), "--out", str(copy), "--stage", "trace", "--overwrite"]) == 0
    table = Run.open(copy).read("traced")
    assert table["fault"].value_counts().to_dict() == {"nan": 2} == Run.open(copy).meta["trace"]["faults"]
    assert table["image"].isna().sum() == 2
    assert "2 of 20 images are left out of every mean (nan: 2)" in capsys.readouterr().err


WRONG = {
    "no site": ({"trace": {"sites": ["unet.midd"]}}, "trace.sites: 'unet.midd' matches no site"),
    "read only": (
        {"trace": {"sites": ["noise_pred.guided"]}},
        "trace.sites: expected sites of the text encoder or",
    ),
    "decoder": ({"trace": {"sites": ["vae.decoder.mid"]}}, "got vae.decoder.mid: it lies behind the U-Net"),
    "a part": (
        {"trace": {"sites": ["unet.mid.attn.0.cross.key"]}},
        "it is a part of an attention: name the attention",
    ),
    "no heads": ({"trace": {"heads": ["unet.mid"]}}, "trace.heads: expected attentions such as"),
    "a step": (
        {"trace": {"windows": [[0, 3]]}},
        "trace.windows: expected steps below 2, the calls of the U-Net, got 2",
    ),
    "no donors": ({"contrasts": []}, "trace: expected a contrast, whose two words are donors"),
    "tokens": (
        {"indicators": {"neutral": "person", "feminine": "tall woman", "masculine": "man"}},
        "trace.positions: expected words of as many tokens, but in prompts[0]",
    ),
    "batch": ({"trace": {"batch": 2}}, "trace.batch: expected `auto` or an integer of at least 3"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_one_line_before_anything_is_drawn(name, model, tmp_path, capsys):
    over, message = WRONG[name]
    assert run(settings(tmp_path, model, **over), tmp_path / "run") == 2
    said = capsys.readouterr().err.strip()
    assert said.startswith("triplets.yaml: ") and message in said and "\n" not in said
    assert not (tmp_path / "run").exists()


def test_what_is_no_drawn_run_of_one_text_encoder(copy, model, tmp_path, capsys):
    assert run(settings(tmp_path, model), tmp_path / "none", "--stage", "trace") == 2
    assert "expected a generated run, found it empty: run --stage generate first" in capsys.readouterr().err
    tiny_pipeline("sdxl").save_pretrained(tmp_path / "xl")
    assert run(settings(tmp_path, tmp_path / "xl"), tmp_path / "xl run") == 2
    assert "trace: expected a model with one text encoder" in capsys.readouterr().err
    config = Run.open(copy).config
    with pytest.raises(UserError, match="trace: expected a model that draws the images"):
        requirements.require_no_external_images(config.model_copy(update={"images": object()}))


def test_a_plan_says_what_it_will_take(model, tmp_path, capsys):
    assert main(["plan", str(settings(tmp_path, model)), "--out", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().out
    drawn, patched = 2 * (DRAWN - 2), DRAWN - 4
    assert f"trace: 2 triplets and seeds x {patched} variants: {drawn} images, " in said
    assert "8 images at once" in said and not (tmp_path / "run").exists()
