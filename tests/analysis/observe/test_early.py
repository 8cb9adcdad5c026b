"""An observer that looks while parts are drawn stores what the observe stage would."""

import pytest

from analysis.observe.early import EarlyObserver, required
from analysis.observe.stage import observe
from probes.errors import UserError
from probes.runs.parts import part_name
from probes.storage.claim import claim
from tests.probes.conftest import generated, settings, stored
from tests.tiny import tiny_pipeline

FEATURES = {"objects": False, "features": ["clip"], "feature_weights": {"clip": "toyworld"}}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny") / "model"
    tiny_pipeline("toy").save_pretrained(folder)
    return folder


@pytest.fixture
def run_folder(model, tmp_path):
    generated(tmp_path / "run", settings(model, observe=FEATURES))
    return tmp_path / "run"


def names(folder):
    return sorted(file.name for file in (folder / "features" / "clip").glob("part-*"))


def test_it_makes_the_parts_that_are_asked_for_and_the_stage_the_rest(run_folder):
    with claim(run_folder) as run:
        early = EarlyObserver(run, "clip")
        early.look(2)
        assert names(run_folder) == [part_name(0), part_name(1)]
        early.look()
        early.end()
        before = stored(run_folder)
        assert run.meta["features/clip"]["weights"] == "toyworld"
        assert run.meta["kinds"]["features/clip"] == run.meta["parts"] == 3
        observe(run, progress=False)
        assert stored(run_folder) == before
        for name in names(run_folder):
            (run_folder / "features" / "clip" / name).unlink()
        observe(run, progress=False)
        assert stored(run_folder) == before


def test_a_part_that_is_damaged_waits_and_one_that_was_seen_is_made_again(run_folder, capsys):
    with claim(run_folder) as run:
        EarlyObserver(run, "clip").look()
        before = stored(run_folder)
        kept = (run_folder / "samples" / part_name(1)).read_bytes()
        (run_folder / "samples" / part_name(1)).write_bytes(kept[:100])
        (run_folder / "features" / "clip" / part_name(1)).unlink()
        (run_folder / "features" / "clip" / part_name(2)).write_bytes(b"")
        early = EarlyObserver(run, "clip")
        early.look()
        assert names(run_folder) == [part_name(0), part_name(2)]
        assert "made again" in capsys.readouterr().err
        (run_folder / "samples" / part_name(1)).write_bytes(kept)
        early.look()
        assert stored(run_folder) == before


def test_one_that_is_not_asked_for_is_refused(model):
    with pytest.raises(UserError, match="stop: expected images that dino looks at, got none"):
        required(settings(model, observe=FEATURES), "dino")
