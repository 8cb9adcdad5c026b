"""Uploading a run, by the command line in a process of its own, to a server that answers as the Hub does."""

import os
import subprocess
import sys

import pytest
from datasets import load_dataset

from tests.hub_server import Hub
from tests.test_imports import ROOT

TOKEN = "hf_test"


@pytest.fixture
def hub():
    made = Hub(TOKEN)
    yield made
    made.close()


def export(finished, hub, folder, *more, program=("-m", "triptych"), token=TOKEN):
    """Exit status, stdout and stderr of ``triptych export RUN --to hub``."""
    settings = {
        "HF_ENDPOINT": hub.endpoint,
        "HF_HUB_OFFLINE": "0",
        "HF_HOME": str(folder / "home"),
        "HF_TOKEN": token,
    }
    line = [sys.executable, *program, "export", str(finished.path), "--to", "hub", *more]
    environment = {**os.environ, **settings, "PYTHONPATH": str(ROOT), "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    (folder / "here").mkdir(exist_ok=True)
    done = subprocess.run(
        line, cwd=folder / "here", env=environment, capture_output=True, text=True, timeout=600
    )
    return done.returncode, done.stdout, done.stderr


def test_a_run_is_uploaded_whole_and_private(finished, hub, tmp_path):
    status, out, err = export(finished, hub, tmp_path, "--repo", "tester/run")
    assert status == 0, err
    assert f"hub: {hub.endpoint}/datasets/tester/run" in out and "load_dataset('tester/run')" in out
    (made,) = hub.made
    assert made["type"] == "dataset" and made["visibility"] == "private" and made["name"] == "run"
    for name, data in hub.files.items():
        path = tmp_path / "uploaded" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    found = load_dataset(str(tmp_path / "uploaded"), cache_dir=str(tmp_path / "cache"))["train"]
    assert found["prompt"] == finished.samples()["prompt"].tolist() and found[0]["overlay"].size == (256, 256)
    assert {f"tables/{name}.parquet" for name in finished.tables()} <= {*hub.files}
    assert not list((tmp_path / "here").iterdir())  # nothing stays


TWICE = """
import os, sys
from triptych.cli.main import main

assert main(sys.argv[1:]) == 2
os.environ["HF_TOKEN"] = ""
sys.exit(main(sys.argv[1:]))
"""


def test_a_refusal_and_a_missing_token_are_one_line(finished, hub, tmp_path):
    options = {"program": ("-c", TWICE), "token": "hf_other"}
    status, out, err = export(finished, hub, tmp_path, "--repo", "tester/run", **options)
    assert (status, out) == (2, "") and len(err.splitlines()) == 2, err
    for line, message in zip(err.splitlines(), ("the Hugging Face Hub refused", "hf auth login")):
        assert message in line and "tester/run" in line
    assert hub.files == {}


def test_without_a_repository_nothing_leaves_this_machine(finished, hub, tmp_path):
    status, _, err = export(finished, hub, tmp_path, "--out", "dataset")
    assert status == 0, err
    assert hub.asked == [] and (tmp_path / "here" / "dataset" / "README.md").exists()
