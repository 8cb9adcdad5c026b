"""Traces of diffusion transformers as a user runs them: generate, trace, measure, report."""

import numpy as np
import pytest
import yaml

from analysis.methods.tracing.cuts import TOLERANCE, UNTESTED
from probes.runs.run import Run
from tests.tiny import tiny_pipeline
from tests.tiny_transformers import ROWS, tiny_transformer_pipeline
from triptych.cli.main import main

SETTINGS = {
    "indicators": {"neutral": "person", "feminine": "woman", "masculine": "man"},
    "prompts": ["a {person} in the park", "a {person} with a dog"],
    "sampler": {"steps": 2},
    "capture": {"sites": ["latent.final"], "words": False},
    "generate": {"workers": 1, "device": "cpu"},
    "observe": {"objects": False, "features": []},
    "measure": {"bootstrap": 20, "permutations": 20},
    "report": {"figures": False},
    "trace": {"necessity": False},
}
TOWERS = ["text.embeddings", "text_2.embeddings", "text_3.embeddings"]
SWEPT = ["text.pooled", *TOWERS, *(f"dit.block.{number}.joint" for number in range(5))]


def settings(folder, **over):
    """Write a configuration; gives its file."""
    file = folder / "triplets.yaml"
    file.write_text(yaml.safe_dump({**SETTINGS, **over}, sort_keys=False))
    return str(file)


def test_from_a_model_to_the_report(tmp_path, capsys):
    """The cuts are in the tables, and the report has the section."""
    out, file = str(tmp_path / "run"), settings(tmp_path, model="toyworld-dit")
    assert main(["run", file, "--out", out, "--stage", "generate", "--quiet"]) == 0, capsys.readouterr().err
    assert main(["trace", out, "--quiet"]) == 0, capsys.readouterr().err
    assert main(["run", out, "--stage", "measure", "--quiet"]) == 0
    assert main(["report", out]) == 0, capsys.readouterr().err
    run = Run.open(tmp_path / "run")
    table = run.read("traced").set_index(["triplet", "variant"])
    assert table["fault"].isna().all() and (table["writes"][table["kind"] != "none"] > 0).all()
    assert [*dict.fromkeys(one[0] for one in table["sites"][table["kind"] == "site"])] == SWEPT
    trace = {**SETTINGS["trace"], "sites": SWEPT[-1:]}
    capsys.readouterr()
    assert main(["run", settings(tmp_path, model="toyworld-dit", trace=trace), "--out", out]) == 2
    assert f"trace.sites is 'default' there, expected {SWEPT[-1:]}: use" in capsys.readouterr().err
    cuts = {"inputs", "complete", "self", "embeddings", "before"}
    found = run.table("trace_cuts")
    assert len(found) == 2 * len(cuts) - 1 and set(found["cut"]) == cuts
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert 'id="trace"' in page and "pooled text" in page and "text encoder 2 · embeddings" in page
    assert "of the U-Net" not in page[page.index('id="trace"') :].split("</section>")[0]
    # the outcome is the checker's; a gap of pictures moves with every rounding
    assert (found["deviation"] <= TOLERANCE).all()
    tested = int((found["reason"] != UNTESTED).sum())  # of a word without an effect any share is 0
    assert tested >= 1 and f"{tested} of {tested} cuts come out" in page


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lcm", "sana-sprint", "cogview3", "cogview4", "hunyuan-dit"])
def test_a_run_from_a_saved_folder_to_the_report(kind, tmp_path, capsys):
    pipe = tiny_pipeline(kind) if kind == "lcm" else tiny_transformer_pipeline(kind)
    pipe.save_pretrained(tmp_path / "model")
    side = 32 if kind == "lcm" else ROWS[kind].size
    sampler = {"steps": 3, "height": side, "width": side}
    file = settings(tmp_path, model=str(tmp_path / "model"), sampler=sampler, capture={"words": True})
    assert main(["run", file, "--out", str(tmp_path / "run"), "--quiet"]) == 0, capsys.readouterr().err
    run = Run.open(tmp_path / "run")
    assert np.isfinite(run.read("words")["peak"]).all() and len(run.read("words")) > 0
    assert "</html>" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def test_what_is_wrong_is_one_line_before_anything_is_drawn(tmp_path, capsys):
    tiny_transformer_pipeline("z-image").save_pretrained(tmp_path / "model")
    capsys.readouterr()  # a bar
    over = {"model": str(tmp_path / "model"), "sampler": {"steps": 2, "height": 64, "width": 64}}
    for more, message in (
        (
            {"indicators": SETTINGS["indicators"] | {"feminine": "woman in red"}},
            "trace: expected prompts of as many tokens, since the transformer masks or pads a text by its length, but",
        ),
        (
            {"prompts": {"system": [None, "Draw this:"], "texts": SETTINGS["prompts"]}},
            "trace: expected prompts under the model's own system prompt, got others",
        ),
        (
            {"model": "toyworld-dit", "trace": {"windows": [[0, 3]]}},
            "trace.windows: expected steps below 2, the calls of the transf",
        ),
    ):
        assert main(["run", settings(tmp_path, **{**over, **more}), "--out", str(tmp_path / "run")]) == 2
        said = capsys.readouterr().err.strip()
        assert message in said and "\n" not in said and len(said) <= 400
        assert not (tmp_path / "run").exists()
