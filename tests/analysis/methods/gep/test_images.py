"""A folder of images of a closed model: renderings of the toy world, by the command line alone."""

import csv

import numpy as np
import pandas as pd
import pytest
import yaml
from PIL import Image

from probes.runs.store import Run
from probes.toyworld.draw import render
from probes.toyworld.scene import complete, parse
from probes.toyworld.world import load_world
from tests.remembered import leave_figures_out
from triptych.cli.main import command as command_of

PROMPTS = {
    "grid": "a {person} {attribute} {context}",
    "attribute": {"tie": "with a tie", "dress": "in a dress"},
    "context": ["riding a bike", "in the park", "on the beach"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two images of each prompt and word, by the prompt in their names."""
    folder, world, rng = (
        tmp_path_factory.mktemp("closed") / "pictures",
        load_world(),
        np.random.default_rng(0),
    )
    folder.mkdir()
    for word in ("woman", "man"):
        for said in PROMPTS["attribute"].values():
            for context in PROMPTS["context"]:
                prompt = f"a {word} {said} {context}"
                for number in range(2):
                    picture = render(complete(parse(prompt, world), world, rng))
                    Image.fromarray(picture).save(folder / f"{prompt}_{number}.png")
    settings = {
        "prompts": PROMPTS,
        "indicators": {"neutral": "person", "feminine": "woman", "masculine": "man"},
        "measure": {"bootstrap": 50, "permutations": 64},
        "generate": {"workers": 1},
        "gep": {"ensemble": 2},
        "sampler": {"steps": 3},
    }
    (folder.parent / "audit.yaml").write_text(yaml.safe_dump(settings))
    return folder


def look(folder, out, *more):
    config = ["--config", str(folder.parent / "audit.yaml")]
    return command_of("gep")(
        ["images", str(folder), *config, "--weights", "toyworld", "--out", str(out), *more]
    )


@pytest.fixture(scope="module")
def run(folder, tmp_path_factory):
    with pytest.MonkeyPatch.context() as monkeypatch:
        leave_figures_out(monkeypatch)
        out = tmp_path_factory.mktemp("runs") / "closed"
        assert look(folder, out, "--model", "a closed model") == 0
    return Run.open(out)


def test_a_folder_of_images_has_vector_and_score(run, capsys):
    vector, score = run.table("gep_vector"), run.table("gep_score")
    assert set(vector["source"]) == {"C", "CC", "CLS"} and set(vector["setting"]) == {"explicit"}
    assert set(zip(score["first"], score["second"], score["kind"])) == {("feminine", "masculine", "contrast")}
    assert set(vector["attribute"]) == {"tie", "dress"} and np.isfinite(vector["difference"]).all()
    frequencies = run.table("gep_frequencies")
    assert (frequencies["n_images"] == 6).all() and (frequencies["n_contexts"] == 3).all()
    assert run.config.model == "a closed model" and list(run.config.indicators) == ["feminine", "masculine"]
    page = (run.path / "report.html").read_text(encoding="utf-8")
    assert 'id="attributes"' in page and "a closed model" in page


def test_people_label_images_that_were_chosen_by_lot(run, tmp_path, capsys):
    assert command_of("gep")(["sheet", str(run.path), "--images", "5", "--out", str(tmp_path / "sheet")]) == 0
    assert "20 questions about" in capsys.readouterr().out
    path = tmp_path / "sheet" / "labels.csv"
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    counts = table.groupby(["attribute", table["sample_id"].str.split("-").str[-1]]).size()
    assert (counts == 5).all() and len(counts) == 4
    assert {file.name for file in path.parent.iterdir()} == {"labels.csv", "images"}
    assert all(Image.open(path.parent / name).size == (64, 64) for name in table["image"])
    assert "Do you see a person in a dress?" in set(table["question"])
    assert command_of("gep")(["sheet", str(run.path), "--out", str(tmp_path / "sheet")]) == 2
    assert "expected no sheet yet" in capsys.readouterr().err
    table.assign(label="yes", annotator="a").to_csv(path, index=False, quoting=csv.QUOTE_ALL)
    assert command_of("gep")(["labels", str(run.path), str(path)]) == 0
    assert "20 labels by 1 annotator: " in capsys.readouterr().out  # and no alpha of one
    powered = Run.open(run.path).table("gep_powered")
    assert (
        set(powered["labels"]) == {"human"} and (powered["value"] == 0).all()
    )  # everything was seen everywhere


@pytest.mark.parametrize(
    ("change", "more", "message"),
    [
        (
            {"prompts": PROMPTS | {"attribute": {"hat": "in a hat"}}},
            (),
            "expected a prompt of the audit, such as",
        ),
        ({"indicators": {"neutral": "person", "feminine": "woman"}}, (), "expected a prompt of the audit"),
        ({}, ("--clip", "clip_vit_z"), "gep.clip: expected clip or clip_vit_l_14, got 'clip_vit_z'"),
        ({}, ("--weights", "/nowhere/clip.safetensors"), "observe.feature_weights.clip: "),
        ({}, ("--names", "{prompt}-{number}"), "expected a name like '{prompt}-{number}'"),
        ({"gep": {"template": "{subject} {place}"}}, (), "gep.template: expected {subject}, {attribute}"),
    ],
)
def test_what_does_not_fit_is_one_line_and_nothing_is_written(
    folder, tmp_path, capsys, change, more, message
):
    settings = yaml.safe_load((folder.parent / "audit.yaml").read_text())
    (tmp_path / "audit.yaml").write_text(yaml.safe_dump(settings | change))
    config = ["--config", str(tmp_path / "audit.yaml"), "--out", str(tmp_path / "run")]
    assert command_of("gep")(["images", str(folder), *config, *more]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1, error
    assert not (tmp_path / "run").exists()
