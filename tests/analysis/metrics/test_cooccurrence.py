"""Objects beside each other, against counts by hand."""

from __future__ import annotations

from itertools import combinations

import pandas as pd
import pytest

from analysis.metrics.cooccurrence import (
    ALL,
    EMPTY_GROUP,
    INCLUDED,
    LEFT_OUT,
    NO_IMAGES,
    NOT_GROUPED,
    amounts,
    cooccurrence,
    counted,
    presence,
)
from analysis.metrics.dependency import GROUPS
from tests.analysis.object_frames import EG, EI, HIDDEN, IG, II, NAMES


def test_cooccurrence_by_hand(small):
    images, objects, chosen = small
    table = cooccurrence(counted(images, objects, chosen.names), ["man"])
    cells = table.set_index(["group", "object", "indicator"])[["detections", "images"]].apply(tuple, axis=1)
    assert cells[ALL, "tie", "neutral"] == (2, 1) and cells[ALL, "tie", "masculine"] == (3, 1)
    assert cells[ALL, "tie", "feminine"] == (0, 0) and cells[ALL, "park", "neutral"] == (1, 1)
    assert cells[IG, "tie", "masculine"] == (3, 1) and cells[HIDDEN, "park", "feminine"] == (2, 2)
    assert (ALL, "woman", "feminine") not in cells.index  # a hidden noun is no detection
    assert table.loc[table["human"], "object"].unique().tolist() == ["man"]
    assert (table["n_images"] == 2).all()
    by_group = table[table["group"].isin(GROUPS[:4])].groupby(["object", "indicator"])["detections"].sum()
    whole = table[table["group"] == ALL].set_index(["object", "indicator"])["detections"]
    assert (by_group.reindex(whole.index) == whole).all()


def test_individuals_are_left_out(small):
    images, objects, chosen = small
    tables = counted(images, objects, chosen.names, without=chosen.individuals)
    assert tables[ALL].objects.tolist() == ["hat", "park", "scarf", "tie", "tree"]
    assert tables[HIDDEN].objects.tolist() == ["park"]


def test_incomplete_triplets_are_not_counted(small):
    images, objects, chosen = small
    tables = counted(
        images[images["sample_id"] != "0/0/masculine"],
        objects[objects["sample_id"] != "0/0/masculine"],
        chosen.names,
    )
    assert tables[ALL].n_images == 1
    assert "tie" not in tables[ALL].objects[tables[ALL].totals().any(axis=1)]


def test_presence_by_hand(small):
    images, objects, chosen = small
    both = presence(images, objects, chosen.names, chosen.individuals)
    table = both[both["individuals"] == INCLUDED].set_index(["group", "indicator"])
    assert table["percent_of_images"][EG, ALL] == 50 and table["percent_of_images"][HIDDEN, "feminine"] == 100
    assert table["images"][II, ALL] == 2 and table["n_images"][II, ALL] == 6
    assert table["percent_of_images"][EI, "masculine"] == 0
    assert table["images"][HIDDEN, "neutral"] == 1
    without = both[both["individuals"] == LEFT_OUT].set_index(["group", "indicator"])
    assert without["images"][HIDDEN, "neutral"] == 0 and without["images"][HIDDEN, "feminine"] == 2


def test_presence_without_word_maps(small):
    images, objects, chosen = small
    table = presence(images, objects.assign(group=""), chosen.names)
    assert table["percent_of_images"].iloc[0] == 0  # of the image without any object
    objects.loc[objects["sample_id"] == "0/0/neutral", "group"] = ""
    table = presence(images, objects, chosen.names).query("individuals == 'included'")
    table = table.set_index(["group", "indicator"])
    assert table["n_images"][EG, ALL] == 5 and table["images"][EG, ALL] == 2
    all_unknown = objects.assign(group="")
    known = images[images["sample_id"].isin(objects["sample_id"])]
    assert presence(known, all_unknown, chosen.names)["reason"].eq(NOT_GROUPED).all()
    assert presence(images[:0], objects[:0], chosen.names)["reason"].eq(NO_IMAGES).all()


def test_amounts_and_intersections_by_hand(small):
    images, objects, chosen = small
    spoken = [(0, "hat"), (0, "park"), (1, "park")]
    nouns = pd.DataFrame(
        [(t, name, noun) for t, noun in spoken for name in NAMES], columns=["triplet", "indicator", "lemma"]
    )
    table, shared = amounts(images, objects, nouns, chosen.names)
    whole = table[table["indicator"] == ALL].set_index("group")["amount"].to_dict()
    assert whole == {EG: 2, IG: 2, EI: 1, II: 1, HIDDEN: 3, "nouns": 2}
    assert table.set_index(["group", "indicator"])["amount"][IG, "feminine"] == 1
    cells = shared.set_index(["over_group", "group"])
    assert cells["percent"][HIDDEN, EI] == pytest.approx(100 / 3) and cells["percent"][EI, HIDDEN] == 100
    assert len(shared) == 36
    for over, group in combinations((*GROUPS, "nouns"), 2):
        assert cells["common"][over, group] == cells["common"][group, over]
    _, empty = amounts(images, objects[objects["group"] != EI], nouns, chosen.names)
    over = empty[empty["over_group"] == EI]
    assert over["percent"].isna().all() and (over["reason"] == EMPTY_GROUP).all()
