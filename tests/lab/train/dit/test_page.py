"""What the page on toyworld says of the diffusion transformers."""

import json

import pytest

from lab.train.dit.page import cells_against, transformers_section
from probes.toyworld import WEIGHTS
from probes.toyworld.dit.assemble import TEACHERS


def test_frequencies_are_held_against_what_was_planted():
    def cells(*drawn):
        return {
            "cells": [
                {"group": group, "thing": "hat", "planted": 0.4, "drawn": share}
                for group, share in zip(("neutral", "feminine"), drawn)
            ]
        }

    teacher = cells(0.5, 0.45)
    teacher["cells"].reverse()  # found by name
    first, second = cells_against(cells(0.35, 0.2), teacher)
    assert (first["away"], first["teacher_away"]) == pytest.approx((0.05, 0.1))
    assert (second["away"], second["teacher_away"]) == pytest.approx((0.2, 0.05))


def test_the_section_states_what_was_measured():
    said = transformers_section()
    for name in TEACHERS:
        measured = json.loads((WEIGHTS / name / "quality.json").read_text())
        line = next(line for line in said.splitlines() if line.startswith(f"| {name} |"))
        assert f"| {100 * measured['nouns_mean']:.1f} % |" in line
        near = [abs(cell["planted"] - cell["drawn"]) <= 0.05 for cell in measured["cells"]]
        assert f"| {100 * sum(near) / len(near):.1f} % of {len(near)} |" in line
        noun = min(measured["nouns"], key=measured["nouns"].get)
        assert f"| {noun} {100 * measured['nouns'][noun]:.0f} %" in line
