"""Choosing captions: what is kept once, what is left out for which reason, and the counts of the paper beside ours."""

import csv
from pathlib import Path

from probes.prompts.captions import DUPLICATE, LONG, TABLE_4, UNPRINTABLE, select, triplets
from probes.prompts.neutral import HUMAN, NO_PERSON

REFERENCE = Path(__file__).parents[3] / "lab" / "papers" / "reference"


def test_every_caption_is_kept_or_has_a_reason():
    said = select(
        [
            "A  person\tin a hat.",
            "a person in a hat",
            "A PERSON IN A HAT .",
            "a person in a cap",
            "a man",
            "people and men",
            "two people and a man",
            "",
            "a person\x1b[31m",
            "a person " + "very " * 50 + "tall",
            "a person " + "a" * 2000,
        ]
    )
    assert [(n.number, n.text, n.count) for n in said.kept] == [
        (1, "A person in a hat.", 3),
        (4, "a person in a cap", 1),
    ]
    assert said.dropped == {DUPLICATE: 2, NO_PERSON: 2, HUMAN: 2, UNPRINTABLE: 1, LONG: 2}
    assert said.words == {"men": 1, "man": 1}
    assert said.read == 11 == len(said.kept) + said.dropped.total()


def test_the_report_counts_and_shows_examples():
    said = select(["a person", "a man"] + [f"dog {i}" for i in range(9)], source="a.json", form="coco")
    report = said.report()
    assert report.startswith("a.json (coco): 11 captions, 1 neutral prompts\n")
    assert "10  no person or people" in report and report.count("dog") == 2
    assert "Table 4: 51,219 triplets of COCO, 1 here" in report
    assert said.counts()["wu2025_table4"] == {"dataset": "COCO", "triplets": 51219}
    assert "Table 4" not in select(["a person"]).report()
    boys = select(["a person and a boy", "a person and a boy"]).report()
    assert "2  another word for a human (Table 2): boy 2" in boys


def test_the_counts_beside_ours_are_those_of_table_4():
    with (REFERENCE / "wu2025_table4_datasets.csv").open() as file:
        printed = {row["dataset"]: int(row["triplets"]) for row in csv.DictReader(file)}
    printed["GCC (val)"] = printed.pop("GCC")
    assert dict(TABLE_4.values()) == printed


def test_a_triplet_has_a_text_for_each_indicator():
    kept = select(["x", "A person and people"]).kept
    words = {"n": ("person", "people"), "f": ("woman", "women"), "i": ("individual", "individuals")}
    assert triplets(kept, words) == [
        {
            "id": "c000002",
            "n": "A person and people",
            "f": "A woman and women",
            "i": "An individual and individuals",
        }
    ]
    assert triplets(kept, words, articles="kept")[0]["i"] == "A individual and individuals"
