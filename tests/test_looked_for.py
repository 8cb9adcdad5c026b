"""What is looked for, from the command line to the page: prompts' nouns alone, and what a real model's run plans."""

import pytest

from analysis.tables.objects.left_open import PROMPTS_ALONE
from probes.runs.run import Run
from tests.analysis.observe.tiny_models import save_detector, save_segmenter
from tests.tiny import tiny_pipeline
from triptych.cli.main import main

YAML = """\
model: {model}
prompts: ["a {{person}} with a dog", "a {{person}} in a hat"]
sampler: {{steps: 1}}
capture: {{sites: [latent], words: true}}
generate: {{device: cpu, workers: 1}}
observe: {{detector: {detector}, segmenter: {segmenter}{more}}}
measure: {{bootstrap: 20, permutations: 8}}
report: {{gallery: 1, figures: false}}
"""


def written(folder, kind, **observe):
    """A YAML file beside a model of that kind with random weights."""
    tiny_pipeline(kind).save_pretrained(folder / "model")
    file = folder / "small.yaml"
    file.write_text(YAML.format(model=folder / "model", **{"more": "", **observe}))
    return str(file)


@pytest.fixture
def real(tmp_path):
    return {"detector": save_detector(tmp_path), "segmenter": save_segmenter(tmp_path)}


def test_a_real_model_is_looked_at_for_everyday_nouns_and_those_of_its_prompts(tmp_path, real, capsys):
    assert main(["plan", written(tmp_path, "sd1", **real)]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("observe: "))
    assert "tags from vocabulary, prompt (" in line


def test_the_plan_of_a_real_model_without_a_detector_names_the_two_lines_that_would_look(tmp_path, capsys):
    assert main(["plan", written(tmp_path, "sd1", detector="null", segmenter="null")]) == 0
    said = (
        "observe: objects skipped: no detector for the images of this model: write `detector: IDEA-Research/"
    )
    assert said in (out := capsys.readouterr().out) and "and `segmenter: facebook/" in out


@pytest.mark.slow
def test_with_the_prompts_nouns_alone_the_report_gives_reasons_and_no_number(tmp_path):
    """On images that hold what was asked for, so that there is something to say nothing of."""
    text = YAML.format(model="toyworld", detector="toyworld", segmenter="toyworld", more=", tags: [prompt]")
    file = tmp_path / "small.yaml"
    file.write_text(text.replace("steps: 1", "steps: 8"))
    assert main([str(file), "--out", str(tmp_path / "run"), "--quiet"]) == 0
    run = Run.open(tmp_path / "run")
    assert len(run.read("objects")) and run.meta["observer"]["tags"] == ["prompt"]
    assert "cooccurrence" not in set(run.table("disparity")["metric"])
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    section = page.partition('<section id="objects">')[2].partition("</section>")[0]
    assert (
        "Looked for: the nouns of each triplet’s prompts, and nothing else, by <b>groundingdino</b>"
        in section
    )
    similarity = section.partition("nearer to one side?")[2].partition("Asked for, guided")[0]
    assert PROMPTS_ALONE in similarity and "1.000" not in similarity
    latex = (tmp_path / "run" / "tables" / "table06_similarity.tex").read_text(encoding="utf-8")
    assert PROMPTS_ALONE in latex and "1.000" not in latex
