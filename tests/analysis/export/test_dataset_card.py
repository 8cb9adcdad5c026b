"""The dataset card of a run: `datasets` loads the run by it, its sentences are the report's, and no table changes."""

import hashlib
import shutil

import numpy as np
import pytest
import yaml
from datasets import load_dataset
from huggingface_hub import DatasetCard

from analysis.export.card import write_dataset_card
from analysis.export.exporting import export_run
from probes.runs.run import Run


def digests(path) -> dict[str, str]:
    """The checksum of every file of a run but its record and what the card writes."""
    names = {file.relative_to(path).as_posix(): file for file in path.rglob("*") if file.is_file()}
    own = {"README.md", "run.json"}
    return {
        name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in names.items() if name not in own
    }


def front(text: str) -> dict:
    """The YAML above a card."""
    return yaml.safe_load(text.split("---\n")[1])


@pytest.fixture(scope="module")
def carded(finished, tmp_path_factory) -> Run:
    """A copy of the run with its card."""
    path = tmp_path_factory.mktemp("carded") / "first-light"
    shutil.copytree(finished.path, path)
    run = Run.open(path)
    before = digests(path)
    assert write_dataset_card(run) == "" and digests(path) == before
    return run


def test_a_run_loads_by_its_folder_alone(carded, tmp_path):
    found = load_dataset(str(carded.path), cache_dir=str(tmp_path))["train"]
    assert found["prompt"] == carded.samples()["prompt"].tolist()
    assert np.array_equal(np.asarray(found[0]["image"]), np.asarray(carded.image(found[0]["sample_id"])))


def test_every_configuration_loads(carded, tmp_path):
    named = [one["config_name"] for one in front((carded.path / "README.md").read_text("utf-8"))["configs"]]
    tables = {name if name != "objects" else "table_objects" for name in carded.tables()}
    assert {*named} == {"images", "objects", "observed", "words", *tables}
    for name in named:
        found = load_dataset(str(carded.path), name, cache_dir=str(tmp_path))["train"]
        if name in carded.tables() and name != "objects":
            assert len(found) == len(carded.table(name))


def test_the_card_states_no_licence_and_parses(carded):
    card = DatasetCard.load(carded.path / "README.md")
    assert card.data.license is None and "license" not in front(
        (carded.path / "README.md").read_text("utf-8")
    )
    assert card.data.task_categories == ["text-to-image"]


def test_it_is_the_same_twice(carded):
    before = (carded.path / "README.md").read_bytes()
    write_dataset_card(Run.open(carded.path))
    assert (carded.path / "README.md").read_bytes() == before


def test_a_readme_of_the_users_stays(finished, tmp_path):
    shutil.copytree(finished.path, tmp_path / "run")
    (tmp_path / "run" / "README.md").write_text("my notes")
    said = write_dataset_card(Run.open(tmp_path / "run"))
    assert "left as it is" in said and (tmp_path / "run" / "README.md").read_text() == "my notes"


def test_an_exported_dataset_loads_with_prompts_objects_and_tables(finished, tmp_path):
    export_run(finished.path, "datasets", tmp_path / "folder")
    found = load_dataset(str(tmp_path / "folder"), cache_dir=str(tmp_path / "cache"))["train"]
    assert found["prompt"] == finished.samples()["prompt"].tolist()
    assert list(found.features)[:2] == ["image", "prompt"]
    assert np.array_equal(np.asarray(found[0]["image"]), np.asarray(finished.image(found[0]["sample_id"])))
    seen = finished.read("objects").query("sample_id == @found[0]['sample_id']")
    assert [one["label"] for one in found[0]["objects"]] == list(seen["label"])
    gap = load_dataset(str(tmp_path / "folder"), "gap", cache_dir=str(tmp_path / "cache"))["train"]
    assert len(gap) == len(finished.table("gap"))
    kinds = {path.name for path in (tmp_path / "folder").iterdir()}
    assert kinds == {"README.md", "data", "tables"}  # a made-up run has no report and no YAML
