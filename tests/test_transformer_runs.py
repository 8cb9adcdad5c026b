"""Whole jobs on diffusion transformers, as a user makes them: from a folder of the published layout to the report."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.tiny_transformers import tiny_transformer_pipeline
from triptych.cli.main import main

CONFIG = {
    "indicators": {"neutral": "person", "feminine": "woman", "masculine": "man"},
    "prompts": ["a {person} with a dog", "a {person} reading a xylophone book"],
    "seeds": [0, 1],
    "sampler": {"steps": 2, "height": 64, "width": 64},
    "generate": {"device": "cpu", "workers": 1},
    "observe": {"engine": "toyworld-checker"},
    "measure": {"bootstrap": 20, "permutations": 20},
    "report": {"gallery": 1, "figures": False},
}
SITES = {
    "sd3": ["text.layers.0", "text_2.layers.0", "text_3.layers.0", "dit.block.1.joint", "dit.block.1.image"],
    "flux-dev": ["text.layers.0", "text_2.layers.0", "dit.block.1.joint", "dit.single.2.image"],
    "qwen-image": ["text.layers.0", "dit.block.1.joint", "dit.block.1.text"],
    "lumina2": ["text.layers.0", "dit.in.text", "dit.single.1.joint", "dit.single.1.text"],
    "z-image": ["text.layers.0", "dit.in.text", "dit.single.1.joint", "dit.single.1.text"],
    "auraflow": ["text.layers.0", "dit.block.1.text", "dit.single.1.joint"],
    "chroma": ["text.layers.0", "dit.block.1.joint", "dit.single.1.image"],
}


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=pytest.mark.slow) for kind in SITES])
def test_from_a_folder_to_the_report(kind, tmp_path, capsys):
    model, run, file = tmp_path / "model", tmp_path / "run", tmp_path / "triplets.yaml"
    tiny_transformer_pipeline(kind).save_pretrained(model)
    file.write_text(json.dumps({**CONFIG, "model": str(model)}))
    assert main([str(file), "--out", str(run), "--quiet"]) == 0, capsys.readouterr().err
    meta = json.loads((run / "run.json").read_text())
    assert meta["status"] == "complete" and meta["model"]["prediction_type"] == "flow_prediction"
    gap = pq.read_table(run / "tables" / "gap.parquet").to_pandas()
    expected = {*SITES[kind], "text.final", "latent", "x0_pred", "latent.final", "image"}
    assert expected <= set(gap["site"])
    assert ("text.pooled" in set(gap["site"])) == (kind in ("sd3", "flux-dev"))
    assert np.isfinite(gap.loc[gap["site"].isin(SITES[kind]), "gap"]).all()
    report = (run / "report.html").read_text(encoding="utf-8")
    assert "<code>joint-mass</code>" in report and "DAAM (Tang" not in report
    samples = pq.read_table(run / "samples").to_pandas()
    words = pq.read_table(run / "words").to_pandas()
    assert len(words) == sum(map(len, samples["words"])) and (words["peak"] > 0).all()
