"""Images of an audit: which of its prompts a row has, by the text of the prompt alone."""

import pytest
import yaml
from PIL import Image

from probes.config import schema
from probes.errors import UserError
from probes.stages.external_images import stage
from probes.stages.external_images.configuration import complete_configuration

WORDS = {"feminine": "woman", "masculine": "man"}
GRID = {
    "grid": "a {person} {attribute} {context}",
    "attribute": {"tie": "with a tie", "dress": "in a dress"},
    "context": ["at sea", "in a park"],
}
PHRASES = [("with a tie", "at sea"), ("in a dress", "in a park")]


def written(folder, rows, columns="file,prompt", **more):
    """A folder of images with a table, and its configuration."""
    pictures = folder / "pictures"
    pictures.mkdir(parents=True)
    for number in range(len(rows)):
        Image.new("RGB", (8, 8 + number), (number, 0, 0)).save(pictures / f"{number}.png")
    lines = [f"{number}.png,{row}" for number, row in enumerate(rows)]
    (pictures / "metadata.csv").write_text("\n".join([columns, *lines]) + "\n", encoding="utf-8")
    settings = {"indicators": WORDS, "reference": "feminine", "images": {"from": "pictures"}, "prompts": GRID}
    path = folder / "closed.yaml"
    path.write_text(yaml.safe_dump(settings | more, sort_keys=False))
    return path


def read(path):
    return schema.load_config(path, read_images=complete_configuration)


def rows(words=("woman", "man"), times=2):
    return [f"A {word}  {said} {where}." for _ in range(times) for said, where in PHRASES for word in words]


def test_a_prompt_says_where_its_images_stand(tmp_path):
    config = read(written(tmp_path, rows()))
    assert [prompt.levels["attribute"] for prompt in config.prompts] == ["tie", "tie", "dress", "dress"]
    taken = stage.plan(config, "closed.yaml")
    # no seeds pair them, so that images of every size are taken
    assert taken.images == 8 and taken.record["triplets"] == 2 and not taken.record["paired"]
    shown = [
        (image["triplet"], image["indicator"], image["prompt"])
        for triplet in taken.triplets
        for image in triplet
    ]
    assert [one[:2] for one in shown] == [(t, w) for t in (0, 3) for _ in range(2) for w in WORDS]
    assert all(("dress in a park" in prompt) == (triplet == 3) for triplet, _, prompt in shown)
    again = [image["template"] for triplet in stage.plan(config, "closed.yaml").triplets for image in triplet]
    assert again[0] == "a {person} with a tie at sea"


@pytest.mark.parametrize(
    ("more", "columns", "message"),
    [
        (
            ["a woman in a hat at sea"],
            "file,prompt",
            "metadata.csv: line 6: expected a prompt of the audit, such as",
        ),
        (["a woman with a tie at sea,masculine"], "file,prompt,indicator", "expected feminine for"),
    ],
)
def test_prompts_that_are_none_of_the_audit_are_named(tmp_path, more, columns, message):
    filled = [f"{row}{',' * columns.count('indicator')}" for row in rows(times=1)]
    filled = (
        [f"{row}{word}" for row, word in zip(filled, [*WORDS, *WORDS])] if "indicator" in columns else filled
    )
    with pytest.raises(UserError, match=message) as caught:
        read(written(tmp_path, [*filled, *more], columns))
    assert "\n" not in str(caught.value)


def test_images_without_their_reader_are_one_line(tmp_path):
    with pytest.raises(
        UserError, match=r"images: expected a model that generates, got images: name a model$"
    ):
        schema.load_config(written(tmp_path, rows()))
