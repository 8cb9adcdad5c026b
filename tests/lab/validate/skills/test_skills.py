"""Skills compared with known answers: what is measured of renderings, kept and printed."""

import json
from pathlib import Path

import pandas as pd

from lab.validate.skills.__main__ import STORED, main, section, whole
from probes.prompts.paintskills import SKILLS

ROOT = Path(__file__).parents[4]


def test_renderings_are_read_exactly(tmp_path, capsys):
    out = tmp_path / "quality.json"
    assert main(["--scenes", "30", "--out", str(out)]) == 0
    assert "| exact reader, renderings | 30 | 100.0 " in capsys.readouterr().out
    rows = json.loads(out.read_text())
    found = [whole(pd.DataFrame(rows["renderings"]["accuracy"]), skill) for skill in SKILLS]
    assert all(row["value"] == 1 for row in found) and sum(row["n"] for row in found) == 30


def test_what_is_published_is_in_the_page_and_meets_the_aims():
    rows = json.loads(STORED.read_text("utf-8"))
    assert section(rows) in (ROOT / "docs/validation/paintskills.md").read_text("utf-8")
    exact = pd.DataFrame(rows["renderings"]["accuracy"])
    assert min(whole(exact, skill)["low"] for skill in SKILLS) >= 0.95
