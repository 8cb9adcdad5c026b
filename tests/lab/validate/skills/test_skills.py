"""Skills compared with known answers: what is measured of renderings, stored and shown."""

from lab.validate.skills.__main__ import DETECTORS, PAGE, measure
from probes.prompts.paintskills import SKILLS


def test_renderings_are_read_exactly():
    found = measure("exact reader", 30)["exact reader"]
    assert all(found[skill]["value"] == 1 for skill in SKILLS)
    assert sum(found[skill]["n"] for skill in SKILLS) == found["average"]["n"] == 30


def test_what_is_published_is_in_the_page_and_meets_the_aims():
    rows = PAGE.stored()
    assert PAGE.text(rows) == PAGE.path.read_text("utf-8")
    assert {name: row["average"]["n"] for name, row in rows.items()} == DETECTORS
    assert min(rows["exact reader"][skill]["low"] for skill in SKILLS) >= 0.95


def test_a_part_that_is_not_there_is_one_line(capsys):
    assert PAGE.main(["DETR"]) == 2
    assert "expected one of exact reader, toyworld's Grounding DINO, got 'DETR'" in capsys.readouterr().err
