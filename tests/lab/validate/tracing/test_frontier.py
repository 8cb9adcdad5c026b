"""Edits where a trace points: what is read of images, rows with their intervals, and the page as it is stored."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from analysis.methods.tracing.smallest import ENOUGH, NEEDED, PlaceSet
from lab.validate.tracing import frontier
from lab.validate.tracing.frontier_page import draw_frontier, page
from probes.models import loading
from probes.toyworld.checker import read_images
from probes.toyworld.draw import render
from probes.toyworld.scene import complete, parse
from probes.toyworld.verdict import verdict
from probes.toyworld.world import World, load_world

DOCS = Path(__file__).parents[4] / "docs/validation"
TEXTS = [
    f"a {{person}} {place}" for place in ("in the park", "on the beach", "in the kitchen", "on the stage")
]
SITE = "unet.up.1.attn.0.cross"


def pictures(lean, seed=0):
    """Renderings of the planted world whose neutral word is of component b with this probability."""
    world = World("made", {**load_world().mixture, "neutral": lean}, load_world().data)
    made = []
    for word in frontier.WORDS:
        for number, text in enumerate(TEXTS):
            rng = np.random.default_rng([seed, number])
            made.append(render(complete(parse(text.replace("{person}", word), world), world, rng)))
    return np.stack(made)


def test_readings_are_what_the_images_show():
    plain, images = pictures(1.0), pictures(0.0)
    found = frontier.readings(images, plain, TEXTS, load_world())
    people = [text.replace("{person}", "person") for text in TEXTS]
    wanted = verdict(read_images(images[:4]), people, load_world()) > 0
    assert found[frontier.LEAN].tolist() == wanted.astype(float).tolist()
    assert (found[frontier.KEPT] == 0).all()  # explicit words are drawn alike
    assert frontier.readings(plain[::-1], plain, TEXTS, load_world())[frontier.KEPT].min() > 0
    assert set(found[frontier.OBEYED]) <= {-1.0, 0.0, 1.0}


@pytest.fixture(scope="module")
def rows():
    """Of a model that is not drawn: images by which edit is in force."""
    pipe = loading.load(loading.resolve("toyworld-cross-4"), device="cpu").pipe
    traced = {ENOUGH: PlaceSet((SITE,), 1.0, 0.9, 1.1), NEEDED: PlaceSet((SITE,), 1.0, 0.9, 1.1)}
    before = pipe.unet.state_dict()
    block = "up_blocks.1.attentions.0.transformer_blocks.0.attn2.to_k.weight"
    weight = next(name for name in before if name.endswith(block))
    unedited = before[weight].clone()
    seen = []

    def draw(prompts):
        edited = not np.array_equal(pipe.unet.state_dict()[weight].numpy(), unedited.numpy())
        seen.append(edited)
        return pictures(0.0 if edited else 1.0)

    found = frontier.frontier(
        pipe, load_world(), traced, TEXTS, draw, kinds=["keys_and_values"], amounts=[1.0]
    )
    return found, seen


def test_every_place_is_edited_and_compared_with_the_unedited_model(rows):
    found, seen = rows
    assert seen == [False, True, True, False]  # none, traced, all, elsewhere
    by = {(row["place"], row["measure"]): row for row in found}
    before, after = (
        frontier.readings(pictures(lean), pictures(1.0), TEXTS, load_world())[frontier.LEAN]
        for lean in (1.0, 0.0)
    )
    for place, change in (("traced", after - before), ("all", after - before), ("elsewhere", 0 * before)):
        assert by[place, "lean"]["mean"] == pytest.approx(change.mean())
        assert by[place, "lean"]["low"] <= change.mean() <= by[place, "lean"]["high"]
    assert by["all less traced", "lean"]["mean"] == 0
    low = stats.t.interval(0.95, 3, (after - before).mean(), max(stats.sem(after - before), 1e-12))[0]
    assert by["traced", "lean"]["low"] <= low + 1e-9  # of all rows at once: no shorter than of one


def test_the_page_is_made_of_what_is_stored():
    results = json.loads((DOCS / "traced_edits.json").read_text("utf-8"))
    assert page(results) == (DOCS / "traced_edits.md").read_text("utf-8")
    drawn = draw_frontier(results)
    assert len([axes for axes in drawn.figure.axes if axes.get_visible()]) == len(results)


def test_an_unknown_model_is_refused(tmp_path, capsys):
    assert frontier.main(["nobody", "--out", str(tmp_path / "page.md")]) == 2
    assert "expected benchmark models" in capsys.readouterr().err
