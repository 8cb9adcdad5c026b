"""The page on runs that stop, and what it is made of."""

import json
from pathlib import Path

import numpy as np
import pytest

from lab.validate.stopping.__main__ import main, paths, text_of
from lab.validate.stopping.designs import STOPS, STOPS_BOUNDED
from lab.validate.stopping.page import fastest, misses, noises, page, rate

DOCS = Path(__file__).parents[4] / "docs" / "validation"


@pytest.fixture(scope="module")
def stored():
    return json.loads((DOCS / "stopping.json").read_text(encoding="utf-8"))


def test_the_page_is_current(stored):
    assert page(stored) == (DOCS / "stopping.md").read_text(encoding="utf-8")
    assert text_of(stored) == (DOCS / "stopping.json").read_text(encoding="utf-8")


def test_what_misses_is_bold_and_listed():
    row = {"audits": 1000, "wrong": 56, "covered": 944, "leans": 100}
    assert [rate(row, name)["missed"] for name in ("wrong", "covered", "leans")] == [True, True, False]
    assert not rate({**row, "wrong": 55}, "wrong")["missed"]
    assert rate(row, "leans")["error"] == pytest.approx((0.1 * 0.9 / 1000) ** 0.5)
    result = {"rows": [{"part": "words", "world": "one", "truth": 0, "designs": {STOPS: row}}]}
    assert [(one["of"], one["design"]) for one in misses(result)] == [("wrong", STOPS), ("covered", STOPS)]


def test_what_a_run_refuses_and_other_stakes_are_not_among_what_misses():
    row = {"audits": 1000, "wrong": 200, "covered": 800, "leans": 200}
    one = {"part": "seeds", "world": "one", "truth": 0, "designs": {STOPS: row}}
    rows = [{**one, "refused": True}, {**one, "part": "stakes", "designs": {"own": row}}, one]
    assert [found["world"] for found in misses({"rows": rows})] == [one, one]


def test_no_two_prompts_and_seeds_share_their_noise():
    drawn, different = noises()
    assert drawn == different == 8 * 240


def test_the_fastest_test_is_walds():
    """Of normal values with a known spread: the logarithm of the likelihood ratio, from 0 to log(2 / 0.05)."""
    effect, rng = 0.4, np.random.default_rng(0)
    steps = np.cumsum(effect * (effect + rng.standard_normal((400, 2000))) - effect**2 / 2, axis=0)
    taken = (steps >= np.log(40)).argmax(axis=0) + 1
    assert fastest(effect) <= taken.mean() <= 1.15 * fastest(effect)


def test_the_figure_shows_audits_that_are_stored(stored):
    for name, path in stored["paths"].items():
        assert name in stored["pools"]
        assert path["stopped"] in [None, *(look[0] for look in path["looks"])]


def test_the_command_refuses_what_it_cannot_do(tmp_path, capsys):
    assert main(["nothing", "--out", str(tmp_path / "page.md")]) == 2
    assert (
        "expected prompts, seeds, given, words, questions, objects, runs, stakes" in capsys.readouterr().err
    )
    assert main(["--out", str(tmp_path / "page.md")]) == 2
    assert "name a part" in capsys.readouterr().err
    assert paths({}) == {} and STOPS_BOUNDED != STOPS
