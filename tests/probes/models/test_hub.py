"""Models of the hub, offline, in the layout of its cache: by branch, tag, commit and variant; and absent ones."""

import json
import shutil
import socket
import time

import numpy as np
import pytest
import torch
from huggingface_hub import constants

from probes.errors import UserError
from probes.models import hub, loading, weights
from probes.models.source import Source
from probes.runs.run import Run
from tests.probes.conftest import settings
from tests.probes.models.test_loading import draw
from tests.tiny import tiny_pipeline
from triptych.cli.main import main

FIRST, SECOND = "a" * 40, "b" * 40


def keep(cache, folder, name="owner/model", commit=FIRST, refs=("main",)):
    """A model folder as `huggingface_hub` keeps it: files by commit, branches and tags as files that name one."""
    root = cache / f"models--{name.replace('/', '--')}"
    snapshot = root / "snapshots" / commit
    shutil.copytree(folder, snapshot)
    for ref in refs:
        (root / "refs" / ref).parent.mkdir(parents=True, exist_ok=True)
        (root / "refs" / ref).write_text(commit)
    return snapshot


def load(name, **options):
    return loading.load(loading.resolve(name, **options), device="cpu")


def test_a_cached_model_draws_as_its_folder_does(saved, cache):
    keep(cache, saved("sdxl"))
    cached, folder = load("owner/model"), load(str(saved("sdxl")))
    assert (cached.record["kind"], cached.record["revision"]) == ("hub", FIRST)
    assert cached.record["weight_hash"] == folder.record["weight_hash"]
    assert cached.scheduler == folder.scheduler
    np.testing.assert_array_equal(draw(cached.pipe), draw(folder.pipe))


def test_a_revision_is_a_branch_a_tag_or_a_commit(saved, cache):
    keep(cache, saved(), refs=("main", "v1.0"))
    keep(cache, saved("sd1"), commit=SECOND, refs=("refs/pr/1", "next"))
    for options, commit in (
        ({}, FIRST),
        ({"revision": "v1.0"}, FIRST),
        ({"revision": "next"}, SECOND),
        ({"revision": SECOND}, SECOND),
    ):
        assert loading.resolve("owner/model", **options).revision == commit
    assert loading.resolve("owner/model@next").revision == SECOND
    with pytest.raises(UserError, match="revision: expected next, as `model` says, got main: name one"):
        loading.resolve("owner/model@next", revision="main")
    with pytest.raises(UserError, match=r"run: hf download owner/model --revision gone --include"):
        loading.resolve("owner/model", revision="gone")


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    """A folder as models are published in half precision: `model.fp16.safetensors` and no other weights."""
    folder = tmp_path_factory.mktemp("half") / "model"
    tiny_pipeline("sd1").to(torch.float16).save_pretrained(folder, variant="fp16")
    assert (folder / "unet/diffusion_pytorch_model.fp16.safetensors").exists()
    return folder


def test_full_precision_goes_before_a_variant(half, saved, tmp_path):
    both = shutil.copytree(saved("sd1"), tmp_path / "both")
    shutil.copytree(half, both, dirs_exist_ok=True)
    assert load(str(both)).record["weight_hash"] == load(str(saved("sd1"))).record["weight_hash"]
    assert load(str(both), variant="fp16").record["weight_hash"] == load(str(half)).record["weight_hash"]


def test_weights_in_shards_are_whole_or_absent(saved, tmp_path):
    folder = tmp_path / "unet"
    tiny_pipeline("sd1").unet.save_pretrained(folder, max_shard_size="20KB")
    shards = sorted(folder.glob("*.safetensors"))
    assert len(shards) > 1 and weights.complete_variants(folder) == {None}
    whole = shutil.copytree(saved("sd1"), tmp_path / "whole")
    shutil.rmtree(whole / "unet")
    shutil.copytree(folder, whole / "unet")
    assert load(str(whole)).record["weight_hash"] == load(str(saved("sd1"))).record["weight_hash"]
    shards[0].unlink()
    assert weights.complete_variants(folder) == set()


def test_what_is_not_cached_is_said_with_its_size_and_the_command(saved, cache):
    snapshot = keep(cache, saved("sd1"), "CompVis/stable-diffusion-v1-4")
    (snapshot / "unet/diffusion_pytorch_model.safetensors").unlink()
    assert loading.resolve("CompVis/stable-diffusion-v1-4", weights=False).path == snapshot  # enough to plan
    with pytest.raises(UserError) as caught:
        loading.resolve("CompVis/stable-diffusion-v1-4")
    line = str(caught.value)
    assert line.startswith(
        "model CompVis/stable-diffusion-v1-4: not in the cache (unet), and the hub gave none"
    )
    assert "; 4.3 GB; " in line and line.endswith(hub.download_command("CompVis/stable-diffusion-v1-4"))


def test_the_command_takes_what_is_read_and_no_more(saved, half, tmp_path):
    """Patterns as the hub's client applies them, over the files of a real repository's kind."""
    from huggingface_hub.utils import filter_repo_objects

    both = shutil.copytree(saved("sd1"), tmp_path / "both")
    shutil.copytree(half, both, dirs_exist_ok=True)
    extras = ("diffusion_pytorch_model.bin", "diffusion_pytorch_model.non_ema.safetensors")
    for extra in ("v1-4.ckpt", "v1-5-pruned.safetensors", *(f"unet/{name}" for name in extras)):
        (both / extra).write_text("")
    files = [file.relative_to(both).as_posix() for file in both.rglob("*") if file.is_file()]
    for variant in (None, "fp16"):
        patterns = hub.download_command("a/b", variant=variant).split('"')[1::2]
        taken = list(filter_repo_objects(files, allow_patterns=patterns))
        target = tmp_path / f"taken-{variant}"
        for file in taken:
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(both / file, target / file)
        assert hub.missing_components(Source("a/b", "hub", target, target, variant=variant)) == []
        weights = [file for file in taken if not file.endswith((".json", ".txt"))]
        assert len(weights) == 3 and all((".fp16." in file) == (variant == "fp16") for file in weights)


@pytest.fixture
def online(monkeypatch, cache):
    """Tests are offline by an option of the hub's client, which a user's machine does not set."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub, "getproxies", dict)


def test_an_id_with_a_typing_error_is_no_missing_network_alone():
    right = "stabilityai/stable-diffusion-xl-base-1.0"
    with pytest.raises(UserError) as raised:
        loading.resolve(right.replace("diff", "dif"))
    said = f"the hub can't be reached; no known id: did you mean {right}"
    assert said in str(raised.value) and len(str(raised.value)) <= 400
    with pytest.raises(UserError, match=r"can't be reached; \d"):
        loading.resolve(right)


def test_a_hub_out_of_reach_is_said_at_once(online, monkeypatch, caplog):
    """Its client alone would try six times, and say so each time."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{closed.getsockname()[1]}")
    began = time.monotonic()
    with pytest.raises(
        UserError, match=r"model nobody/none: not in the cache, and the hub can't be reached; no known id,"
    ):
        loading.resolve("nobody/none")
    assert time.monotonic() - began < hub._PATIENCE + 1
    assert not caplog.records


def test_behind_a_proxy_the_client_decides(online, monkeypatch):
    monkeypatch.setattr(hub, "getproxies", lambda: {"https": "http://proxy:3128"})
    monkeypatch.setattr(socket, "create_connection", lambda *_: pytest.fail("no direct connection"))
    hub._require_network()


@pytest.mark.slow
def test_a_run_stays_with_the_commit_it_began_with(saved, cache, tmp_path, capsys):
    """A branch that moves between two commands does not mix two models, and does not stop the run either."""
    keep(cache, saved("sd1"))
    config = settings("owner/model", name="pinned", prompts=["a {person} with a dog"], seeds=[0])
    file = tmp_path / "triplets.yaml"
    file.write_text(json.dumps({**config.resolved(), "out": str(tmp_path / "run")}))
    arguments = [str(file), "--stage", "generate", "--quiet"]
    assert main(arguments) == 0
    record = Run.open(tmp_path / "run").meta["model"]
    assert (record["id"], record["revision"]) == ("owner/model", FIRST)
    assert record["ships_safety_checker"] is False and record["prediction_type"] == "epsilon"
    keep(cache, saved("sd2"), commit=SECOND)
    (tmp_path / "run/samples/part-00000.parquet").unlink()
    assert main(arguments) == 0
    assert Run.open(tmp_path / "run").meta["model"]["revision"] == FIRST
    file.write_text(file.read_text().replace('"revision": null', '"revision": "main"'))
    assert main(arguments) == 2  # asked for by name it is another model
    assert "holds another run: model" in capsys.readouterr().err
