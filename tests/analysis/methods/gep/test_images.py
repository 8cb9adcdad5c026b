"""A folder of images of a closed model: renderings of the toy world, by the command line alone."""

import argparse
import json
import shutil

import numpy as np
import pandas as pd
import pytest
import yaml
from PIL import Image

from analysis.methods.gep import images
from analysis.observe.features import attribute_audit as audit
from analysis.observe.features.observer import is_requested
from probes.config.schema import Config
from probes.runs.run import Run
from probes.toyworld import WEIGHTS
from probes.toyworld.draw import render
from probes.toyworld.scene import parse, sample_scene
from probes.toyworld.world import load_world
from triptych.cli.main import command as command_of

CLIP = WEIGHTS / "clip"
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
                    picture = render(sample_scene(parse(prompt, world), world, rng))
                    Image.fromarray(picture).save(folder / f"{prompt}_{number}.png")
    settings = {
        "prompts": PROMPTS,
        "indicators": {"neutral": "person", "feminine": "woman", "masculine": "man"},
        "measure": {"bootstrap": 50, "permutations": 64},
        "generate": {"workers": 1},
        "gep": {"ensemble": 2},
        "sampler": {"steps": 3},
        "report": {"figures": False},
    }
    (folder.parent / "audit.yaml").write_text(yaml.safe_dump(settings))
    return folder


def look(folder, out, *more):
    config = ["--config", str(folder.parent / "audit.yaml")]
    return command_of("audit gep")(
        ["images", str(folder), *more, *config, "--weights", "toyworld", "--out", str(out)]
    )


@pytest.fixture(scope="module")
def run(folder, tmp_path_factory):
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
    out = tmp_path / "sheet"
    assert command_of("labels")(["sheet", str(run.path), "--images", "5", "--out", str(out)]) == 0
    assert "20 questions about" in capsys.readouterr().out
    page = (out / "sheet.html").read_text("utf-8")
    cards = json.loads(page.partition('id="data">')[2].partition("</script>")[0])["cards"]
    asked = [(card["id"], one["key"], one["text"]) for card in cards for one in card["questions"]]
    table = pd.DataFrame(asked, columns=["image", "question", "asked"])
    counts = table.groupby(["question", table["image"].str.split("-").str[-1]]).size()
    assert (counts == 5).all() and len(counts) == 4
    assert "Do you see a person in a dress?" in set(table["asked"])
    path = tmp_path / "labels.csv"
    table.assign(about="attributes", label="yes", annotator="a").to_csv(path, index=False)
    assert command_of("labels")(["read", str(run.path), str(path)]) == 0
    assert "20 labels by 1 annotator: " in capsys.readouterr().out  # and no alpha of one
    powered = Run.open(run.path).table("gep_powered")
    assert (
        set(powered["labels"]) == {"human"} and (powered["value"] == 0).all()
    )  # everything was seen everywhere


@pytest.mark.slow
def test_several_folders_are_audited_and_compared_by_one_command(folder, tmp_path, capsys):
    other = shutil.copytree(folder, tmp_path / "others")
    out = tmp_path / "out"
    assert look(folder, out, str(other)) == 0
    assert "worst_rank" in capsys.readouterr().out
    board = pd.read_csv(out / "comparison" / "leaderboard.csv")
    assert set(board["model"]) == {"pictures", "others"} and set(board["source"]) == {"CLS"}
    assert {path.name for path in out.iterdir()} == {"pictures", "others", "comparison"}
    assert look(folder, out, str(folder)) == 2
    assert look(folder, out, str(other), "--model", "one") == 2
    said = capsys.readouterr().err
    assert "expected folders of different names" in said and "--model: expected one folder" in said


@pytest.mark.parametrize(
    ("observe", "gep", "weights", "clip"),
    [
        ({"feature_weights": {"clip_vit_l_14": str(CLIP)}}, {}, None, "clip_vit_l_14"),
        ({"features": ["clip_vit_l_14"]}, {}, str(CLIP), "clip_vit_l_14"),
    ],
)
def test_clip_is_the_papers_where_its_weights_are_given(folder, tmp_path, observe, gep, weights, clip):
    settings = yaml.safe_load((folder.parent / "audit.yaml").read_text())
    (tmp_path / "audit.yaml").write_text(yaml.safe_dump(settings | {"observe": observe, "gep": gep}))
    options = {"names": None, "model": None, "clip": None, "weights": weights}
    asked = argparse.Namespace(folder=folder, config=tmp_path / "audit.yaml", **options)
    made = images._written(asked)[0]
    assert made["observe"]["features"] == [clip]
    assert made["observe"]["feature_weights"] == observe.get("feature_weights", {clip: weights})
    assert "clip" not in made["gep"] or made["gep"]["clip"] == clip
    config = Config(prompts={"from": "gep"}, observe=made["observe"], gep=made["gep"])
    assert audit.clip_name(config) == clip and is_requested(clip, config)


@pytest.mark.parametrize(
    ("change", "more", "message"),
    [
        (
            {"prompts": PROMPTS | {"attribute": {"hat": "in a hat"}}},
            (),
            "expected a prompt of the audit, such as",
        ),
        ({}, ("--clip", "clip_vit_z"), "gep.clip: expected clip or clip_vit_l_14, got 'clip_vit_z'"),
        ({}, ("--weights", "/nowhere/clip.safetensors"), "observe.feature_weights.clip: "),
        ({}, ("--names", "{prompt}-{number}"), "expected a name like '{prompt}-{number}'"),
    ],
)
def test_what_does_not_fit_is_one_line_and_nothing_is_written(
    folder, tmp_path, capsys, change, more, message
):
    settings = yaml.safe_load((folder.parent / "audit.yaml").read_text())
    (tmp_path / "audit.yaml").write_text(yaml.safe_dump(settings | change))
    config = ["--config", str(tmp_path / "audit.yaml"), "--out", str(tmp_path / "run")]
    assert command_of("audit gep")(["images", str(folder), *config, *more]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1, error
    assert not (tmp_path / "run").exists()
