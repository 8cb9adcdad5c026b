"""Images of PaintSkills' prompts that another program drew: judged as if they had been drawn here, and the oracle."""

import json
import re
from pathlib import Path

import pytest
import yaml
from PIL import Image

from lab.validate.skills.scenes import draw_scene, scene
from probes.config.schema import Config
from probes.prompts import paintskills
from probes.runs.run import Run
from probes.toyworld.palette import paint
from tests.analysis.observe.random_detr import TINY, save_detr
from tests.runs import export_images, run_settings

PAGE = Path(__file__).parents[1] / "docs" / "validation" / "paintskills.md"
SETTINGS = {
    "model": "toyworld",
    "prompts": {"from": "toyworld-skills", "object": ["dog", "cup"]},
    "limit": 60,
    "generate": {"workers": 1, "device": "cpu"},
    "report": {"gallery": 3},
}
FILES = ("skills_images.csv", "skills_accuracy.csv", "skills_table02.tex")
# as COCO numbers what PaintSkills names
COCO = {
    **dict.fromkeys(range(91), "N/A"),
    **{
        1: "person",
        2: "bicycle",
        3: "car",
        5: "airplane",
        9: "boat",
        10: "traffic light",
        11: "fire hydrant",
    },
    **{13: "stop sign", 15: "bench", 16: "bird", 18: "dog", 23: "bear", 28: "umbrella", 33: "suitcase"},
    64: "potted plant",
}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """A run of renderings, of which one in six shows what another prompt of its skill asks for."""
    folder = tmp_path_factory.mktemp("drawn")
    config = Config(prompts=SETTINGS["prompts"], limit=SETTINGS["limit"], seeds=[0])
    asked = paintskills.requested_skills(config)
    (folder / "scenes").mkdir()
    for number, prompt in enumerate(config.prompts[: len(asked)]):
        shown = asked[number + 3] if number % 12 in (1, 6) else asked[number]
        pixels = paint(draw_scene(scene(shown, "3")))
        Image.fromarray(pixels).save(folder / "scenes" / f"{prompt.id}.png")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run_settings(folder, SETTINGS | {"images": {"from": "scenes", "names": "{prompt_id}"}}) == 0
    return Run.open(folder / "run")


def test_tables_are_those_of_the_run_whose_images_they_are(drawn, tmp_path):
    prompts = list(drawn.samples(["prompt"])["prompt"])
    assert len(set(prompts)) < len(prompts) == 60
    rows = drawn.samples(["sample_id", "prompt_id", "prompt", "seed", "image"]).to_dict("records")
    export_images(reversed(rows), tmp_path / "pictures", ("prompt", "prompt_id", "seed"))
    assert run_settings(tmp_path, SETTINGS | {"images": {"from": "pictures"}}) == 0
    for name in FILES:
        there = (drawn.path / "tables" / name).read_bytes()
        assert there == (tmp_path / "run" / "tables" / name).read_bytes(), name
    taken = Run.open(tmp_path / "run")
    accuracy = taken.table("skills_accuracy")
    assert (
        len(accuracy) > 100 and accuracy.loc[accuracy["task"] == "number", "value"].between(0.01, 0.99).any()
    )
    assert not accuracy["without_image"].any()
    page = (taken.path / "report.html").read_text(encoding="utf-8")
    assert "60 images of the 60" in page and "had no image" not in page


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            ["prompt", "one dog"],
            "line 2: expected a prompt that stands once, got 'one dog', which is that of object-03-dog and"
            " count-19-dog-1: name which one in a column `prompt_id`",
        ),
        (
            ["prompt_id,prompt", "object-03-dog,two dogs"],
            "line 2: expected 'one dog', the prompt object-03-dog, got 'two dogs': correct one of both",
        ),
    ],
)
def test_rows_that_name_no_prompt_or_several_are_one_line(tmp_path, capsys, rows, said):
    (tmp_path / "pictures").mkdir()
    Image.new("RGB", (64, 64)).save(tmp_path / "pictures" / "a.png")
    head, *lines = rows
    table = [f"file,{head}", *(f"a.png,{line}" for line in lines)]
    (tmp_path / "pictures" / "metadata.csv").write_text("\n".join(table) + "\n")
    settings = SETTINGS | {"images": {"from": "pictures"}, "model": "closed"}
    assert run_settings(tmp_path, settings) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def published(folder, scenes):
    """The folders of PaintSkills as its authors' code reads them, with as many scenes of each skill."""
    made = {"object": ["humanSophie"], "count": ["dog"] * 3, "spatial": ["fireHydrant", "bike"]}
    texts = {"object": "a photo of human", "count": "3 dogs", "spatial": "a bike is left to a fire hydrant"}
    for skill, shapes in made.items():
        (folder / skill / "scenes").mkdir(parents=True)
        (folder / skill / "images").mkdir()
        data = []
        for number in range(scenes):
            name = f"{skill.title()}_val_{number:05d}"
            things = [
                {"shape": shape, "relation": "left_0" if skill == "spatial" and place else None}
                for place, shape in enumerate(shapes)
            ]
            data.append({"id": name, "text": texts[skill], "objects": things})
            shade = (40 * number, 90, 20 * len(shapes))
            image = Image.new("RGB", (64, 64), shade)
            image.putpixel((number, 3), (255, 255, 255))  # of one colour it would be a fault
            image.save(folder / skill / "images" / f"image_{name}.png")
        (folder / skill / "scenes" / f"{skill}_val.json").write_text(json.dumps({"data": data}))


def test_scenes_as_published_are_judged_by_detr(tmp_path, monkeypatch):
    """By the page's program and its command, with another folder of DETR."""
    scenes = 3
    detector = save_detr(tmp_path / "detr", COCO, **(TINY | {"shortest": 64, "longest": 106}))
    published(tmp_path / "PaintSkills", scenes)
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(program, {})
    settings = yaml.safe_load((tmp_path / "scenes.yaml").read_text())
    settings["observe"]["detector"] = str(detector)
    settings["generate"] = {"workers": 1, "device": "cpu"}
    assert run_settings(tmp_path, settings) == 0
    taken = Run.open(tmp_path / "run")
    images = taken.table("skills_images")
    assert len(images) == 3 * scenes and set(images["reason"]) == {""}
    wanted = [
        ("object", "person", "", "", ""),
        ("count", "dog", "3", "", ""),
        ("spatial", "fire hydrant", "", "bike", "left"),
    ]
    found = images[["skill", "object", "count", "object_b", "relation"]].drop_duplicates()
    assert list(map(tuple, found.values)) == wanted
    assert taken.config.model == "PaintSkills' own scenes"
    assert {"person", "bicycle", "dog"} <= set(taken.read("observed", ["tags"])["tags"].iloc[0])
    accuracy = taken.table("skills_accuracy")
    assert set(accuracy["detector"]) == {detector.name} and set(accuracy["threshold"]) == {0.7}
    assert r"\label{tab:skills_table02}" in (taken.path / "tables" / "skills_table02.tex").read_text()
