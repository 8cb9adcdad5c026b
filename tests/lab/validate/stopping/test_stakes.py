"""Other stakes in the same audits."""

from lab.validate.stopping.audits import OWN
from lab.validate.stopping.objects import PairWorld
from lab.validate.stopping.stakes import OF_PROMPTS, OF_WORDS, PAIRS, STAKES, of_stakes


def test_each_world_has_a_row_with_all_stakes(monkeypatch):
    monkeypatch.setattr("lab.validate.stopping.stakes.LONG", {})
    monkeypatch.setattr("lab.validate.stopping.stakes.FAR", 240)
    monkeypatch.setattr("lab.validate.stopping.stakes.FAR_LOOKS", (12, 100, 240))
    monkeypatch.setattr("lab.validate.stopping.stakes.OF_WORDS", OF_WORDS[:1])
    monkeypatch.setattr("lab.validate.stopping.stakes.PAIRS", (*PAIRS[:1], PairWorld("all", 0.9, 0.1)))
    rows = list(of_stakes({}, few=8))
    assert [row["world"] for row in rows[:6]] == list(OF_PROMPTS) and len(rows) == 9
    assert all(list(row["designs"]) == list(STAKES) for row in rows)
    assert {of["leans"] for of in rows[7]["designs"].values()} == {8}


def test_own_stakes_are_those_of_the_project_and_no_others_are():
    assert [name for name, stakes in STAKES.items() if stakes == OWN] == ["own"]
