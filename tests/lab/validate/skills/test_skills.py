"""Skills compared with known answers: what is measured of renderings, kept and printed."""

import json
from pathlib import Path

import pytest

from lab.validate.skills.__main__ import main
from lab.validate.skills.page import FIGURE, section, whole
from lab.validate.skills.page import main as print_page
from lab.validate.skills.page import tables as accuracies
from probes.prompts.paintskills import SKILLS
from probes.toyworld import SKILLED, WEIGHTS

ROOT = Path(__file__).parents[4]


def published():
    return [
        json.loads((WEIGHTS / SKILLED / name).read_text("utf-8")) for name in ("quality.json", "recipe.json")
    ]


@pytest.mark.lab
def test_renderings_are_read_exactly_also_through_the_models_own_decoder(tmp_path, capsys):
    out = tmp_path / "quality.json"
    for pictures in ("rendered", "decoded", "shared"):
        asked = ["--scenes", "30", "--pictures", pictures, "--name", pictures, "--out", str(out)]
        assert main(asked) == 0
    assert "object   all    accuracy          100.00" in capsys.readouterr().out
    rows = json.loads(out.read_text())
    assert list(rows) == ["rendered", "decoded", "shared"]
    found = accuracies(rows)
    for skill in SKILLS:
        assert whole(found["rendered"], skill)["value"] == 1
        assert whole(found["decoded"], skill)["value"] >= 0.9 > whole(found["shared"], skill)["value"]
    assert sum(whole(found["rendered"], skill)["n"] for skill in SKILLS) == 30


def test_what_is_published_is_in_the_page_and_meets_the_aims(tmp_path, capsys):
    rows, recipe = published()
    assert section(rows, recipe) in (ROOT / "docs/validation/paintskills.md").read_text("utf-8")
    figure = tmp_path / "curve.png"
    assert print_page(["--figure", str(figure)]) == 0
    assert capsys.readouterr().out == section(rows, recipe)
    assert figure.read_bytes().startswith(b"\x89PNG") and (ROOT / f"docs/validation/{FIGURE}.png").exists()
    found = accuracies(rows)
    for name in ("renderings", "autoencoder"):
        assert min(whole(found[name], skill)["low"] for skill in SKILLS) >= 0.95
    assert whole(found["model"], "object")["value"] >= 0.9
    for skill in SKILLS:
        row = whole(found["model"], skill)
        assert row["low"] <= row["value"] <= row["high"] and row["shuffled"] == pytest.approx(
            row["chance"], abs=0.03
        )
