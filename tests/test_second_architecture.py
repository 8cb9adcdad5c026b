"""Another architecture enters by one file and one row of the registry, and makes a whole run."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.second_architecture import register, tiny_transformer_pipeline
from triptych.cli.main import main

STEPS, SCALE = 3, 2.5
BLOCKS = [f"transformer.{k}{part}" for k in range(3) for part in (".cross", "")]
CONFIG = {
    "indicators": {"neutral": "person", "feminine": "woman", "masculine": "man"},
    "prompts": ["a {person} with a dog", "a {person} reading a book", "the {person} in a car"],
    "seeds": [0, 1],
    "sampler": {"steps": STEPS, "guidance_scale": SCALE},
    "capture": {"words": False, "keep": ["x0_pred", "latent.final"], "keep_places": "all"},
    "generate": {"device": "cpu", "workers": 1},
    "observe": {"engine": "toyworld-checker"},
    "measure": {"bootstrap": 20, "permutations": 20},
    "report": {"gallery": 1, "figures": False},
}


@pytest.fixture
def registered(monkeypatch):
    register(monkeypatch)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("second") / "model"
    tiny_transformer_pipeline().save_pretrained(path)
    return path


def written(folder, model, **over):
    path = folder / "c.yaml"
    path.write_text(json.dumps({**CONFIG, "model": str(model), **over}))
    return str(path)


def test_without_its_row_it_is_refused(model, tmp_path, capsys):
    assert main([written(tmp_path, model), "--out", str(tmp_path / "run"), "--quiet"]) == 2
    expected = "expected a pipeline that can be read, got TinyTransformerPipeline"
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize(
    ("over", "expected"),
    [
        (
            {"sampler": {"scheduler": "ddim"}},
            "sampler.scheduler: expected one of FlowMatchEulerDiscreteScheduler, which diffusers exchanges for"
            " FlowMatchEulerDiscreteScheduler, got 'ddim'",
        ),
        (
            {"sampler": {"height": 50}},
            "sampler.height: expected a multiple of 8 for this model, got 50: use 48",
        ),
        (
            {"capture": {"sites": ["unet.mid"]}},
            "capture.sites: 'unet.mid' matches no site of TinyTransformerPipeline",
        ),
    ],
)
def test_what_it_cannot_do_is_said_in_its_own_words(over, expected, registered, model, tmp_path, capsys):
    assert main([written(tmp_path, model, **over), "--out", str(tmp_path / "run"), "--quiet"]) == 2
    assert f"c.yaml: {expected}" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_whole_run(registered, model, tmp_path, capsys):
    run = tmp_path / "run"
    assert main(["plan", written(tmp_path, model)]) == 0
    assert " MB on disk, of which " in capsys.readouterr().out
    assert main([written(tmp_path, model), "--out", str(run), "--quiet"]) == 0, capsys.readouterr().err
    meta = json.loads((run / "run.json").read_text())
    assert meta["status"] == "complete" and meta["model"]["pipeline"] == "TinyTransformerPipeline"
    assert meta["model"]["prediction_type"] == "flow_prediction"
    fields = meta["part_fields"]
    assert "model/transformer/config.json" in fields and "model/unet/config.json" not in fields
    assert (run / "report.html").exists()
    disparity = pq.read_table(run / "tables" / "disparity.parquet").to_pandas()
    assert {*BLOCKS, "text.layers.0", "x0_pred", "image"} <= set(disparity["site"])
    gap = pq.read_table(run / "tables" / "gap.parquet").to_pandas()
    assert np.isfinite(gap.loc[gap["site"] == "transformer.1.cross", "gap"]).all()
