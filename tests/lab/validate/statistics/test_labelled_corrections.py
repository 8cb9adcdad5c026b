"""Worlds of labels beside a machine's readings: drawn as they say, and told from one another."""

from __future__ import annotations

from lab.validate.statistics import labelled_corrections as corrections

PAGES = 30


def rows_of(*numbers):
    worlds = [corrections.WORLDS[number] for number in numbers]
    return corrections.correction_rows(simulations=PAGES, worlds=worlds).to_dict("records")


def test_intervals_hold_where_labels_are_random():
    fair, good = rows_of(1, 4)
    for row in (fair, good):
        assert row["held"] > 0.92 and row["warned"] <= 0.2
    assert good["width"] < fair["width"]


def test_the_section_marks_what_misses():
    (row,) = rows_of(1)
    text = corrections.section_of(
        [row | {"held": 0.9, "world": "low"}, row | {"held": 0.95, "world": "fine"}]
    )
    assert "| low | **90.0** ±" in text and "| fine | 95.0 ±" in text
