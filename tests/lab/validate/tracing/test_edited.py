"""One edit at each cross-attention of a benchmark model whose word enters at a single one."""

import json

import numpy as np
import pytest

from lab.train.base.measure import sample
from lab.validate.tracing.edited import ALL, NONE, PLACES, compared_with_truth, page
from probes.models import loading
from probes.models.edits import Edit
from probes.toyworld.places import known_places

NAME = "toyworld-cross-4"


@pytest.fixture(scope="module")
def table():
    loaded = loading.load(loading.resolve(NAME), device="cpu")
    edit = Edit(words={"person": {"woman": 1.0}}, keep=["woman", "man"], contexts=["a {person}"])

    def draw(prompts):
        return sample(loaded.pipe, prompts, [0] * len(prompts), steps=1, progress=False)

    return compared_with_truth(NAME, loaded.pipe, edit, ["a {person} in the park"], draw)


def test_an_edit_changes_images_where_the_word_enters_and_nowhere_else(table):
    (true,) = known_places("located")[NAME].sites
    person = table[table["word"] == "person"].set_index("site")
    assert person["true"].dropna()[lambda one: one.astype(bool)].index.tolist() == [true]
    assert person.loc[true, "pixels"] > 1e-3 and person.loc[ALL, "pixels"] > 1e-3
    elsewhere = person.drop(index=[NONE, true, ALL])
    assert (
        len(elsewhere) == 6 and (elsewhere["pixels"] < 1e-3).all()
    )  # what solving rounds: below a quarter of a level


def test_shares_and_changes_are_those_of_the_unedited_model(table):
    plain = table[table["site"] == NONE].set_index("word")
    assert (plain["change"] == 0).all() and (plain["pixels"] == 0).all()
    for _, rows in table.groupby("site"):
        rows = rows.set_index("word")
        np.testing.assert_allclose(rows["change"], rows["share_b"] - plain["share_b"])


def test_the_page_is_made_of_what_is_stored():
    stored = json.loads(PLACES.read_text("utf-8"))
    assert page(stored) == PLACES.with_name("mitigation.md").read_text("utf-8")
