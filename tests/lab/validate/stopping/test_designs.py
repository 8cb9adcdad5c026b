"""Where audits stop: the fast way of many audits at once, beside what a run asks at every look."""

import numpy as np
import pytest
from scipy import stats

from analysis.methods.stopping.gaps import MEASURE, RUN
from analysis.methods.stopping.question import DIRECTION, EQUIVALENCE, FIRST, GAP, INTERVAL, OPEN, SECOND
from analysis.stats.confidence_sequences import log_capital
from lab.validate.statistics.words import WordWorld, draw_words
from lab.validate.stopping import designs
from lab.validate.stopping.audits import PromptAudits, Stakes, WordAudits, log_capitals
from lab.validate.stopping.designs import (
    DESIGNS,
    GROUPS,
    PEEKING,
    STOPS,
    StoppedAudits,
    by_itself,
    decided,
    question,
    rows,
)

LOOKS, AUDITS = (12, 28, 60), 8


def prompt_audits():
    rng = np.random.default_rng(3)
    leans = np.array([0, 0, 0, 0, 0.3, -0.6, 0.9, 2.0])
    return PromptAudits(np.clip(rng.standard_normal((60, AUDITS)) + leans, -4, 4), 4.0)


def word_audits():
    rng, near = np.random.default_rng(4), WordWorld("", 0.6, 0.02, 0.1, lean=0.5)
    drawn = draw_words(near, (3, 3, 0), 60, AUDITS, rng, references=3)
    return WordAudits((drawn.sides[0], drawn.sides[1]), (drawn.within[0], drawn.within[1]))


def near_audits():
    """Of words that mean nearly the same, so that a gap can be told to be small."""
    rng, near = np.random.default_rng(5), WordWorld("", 0.0, 0.0, 0.1, reference=0.0)
    drawn = draw_words(near, (3, 3, 0), 60, AUDITS, rng, references=3)
    return WordAudits((drawn.sides[0], drawn.sides[1]), (drawn.within[0], drawn.within[1]))


@pytest.mark.parametrize("reach", [RUN, MEASURE])
def test_capital_of_many_audits_is_that_of_each(reach):
    for audits in (prompt_audits(), word_audits()):
        points, known = np.array([0.0, -0.1, 0.4]), audits.reach(reach)
        found = log_capitals(audits.values, points, known, np.array(LOOKS))
        for place, n in enumerate(LOOKS):
            for audit in range(AUDITS):
                own = None if known is None else np.broadcast_to(known, audits.values.shape)[:n, audit]
                expected = log_capital(audits.values[:n, audit], points, reach=own)
                np.testing.assert_allclose(found[place, audit], expected, atol=1e-10)


def test_other_stakes_and_means_of_each_audit():
    """Value by value: one gambler for each stake and sign, whose first scale counts values at the reach."""
    stakes = Stakes((0.2, 0.7), (0.5, 1.0), fewest=2, shrink=0.5)
    values, reach = np.random.default_rng(1).uniform(-1, 1, (9, 2)), 1.5
    means = np.array([[0.1], [-0.3]])
    found = log_capitals(values, means, np.full((9, 1), reach), np.array([5, 9]), stakes)
    for audit, mean in enumerate(means[:, 0]):
        off, most, capital = values[:, audit] - mean, reach + abs(mean), []
        for bet, cap in zip(stakes.bets, stakes.caps):
            for sign in (1, -1):
                money, path = 1.0, []
                for t in range(9):
                    if t >= 2:
                        scale = np.sqrt((sum(off[:t] ** 2) + 0.5 * most**2) / (t + 0.5))
                        money *= 1 + sign * min(bet / scale, cap / most) * off[t]
                    path.append(money)
                capital.append(path)
        expected = np.log(np.mean(capital, axis=0))
        np.testing.assert_allclose(found[:, audit, 0], expected[[4, 8]], atol=1e-12)


@pytest.mark.parametrize(("made", "within"), [(prompt_audits, 0.6), (word_audits, 0.02), (near_audits, 0.05)])
@pytest.mark.parametrize("reach", [RUN, MEASURE])
@pytest.mark.parametrize(("truth", "kind"), [(0.0, GAP), (0.35, GAP), (0.0, DIRECTION), (0.0, INTERVAL)])
def test_audits_stop_where_a_run_does_that_asks_at_every_look(made, within, reach, truth, kind):
    audits, asked = made(), question(3 * within if kind == INTERVAL else within, 60, kind)
    seen = {n: audits.usual(n, asked.level, np.arange(AUDITS)) for n in LOOKS}
    found = by_itself(audits, asked, reach, truth, seen)
    for audit in range(AUDITS):
        for n in LOOKS:
            look = audits.after(audit, n, asked.level, reach)
            if asked.answer(look) != OPEN:
                break
        assert (found.prompts[audit], found.answer[audit]) == (n, asked.answer(look))
        assert found.covered[audit] == (look.low <= truth <= look.high)


def test_the_audits_above_end_in_every_way():
    asked, seen = question(0.05, 60), set()
    for audits in (word_audits(), near_audits()):
        usual = {n: audits.usual(n, asked.level, np.arange(AUDITS)) for n in LOOKS}
        seen |= set(by_itself(audits, asked, RUN, 0.0, usual).answer)
    assert seen >= {FIRST, EQUIVALENCE}


def test_an_answer_that_no_run_gives_is_an_error(monkeypatch):
    audits, asked = prompt_audits(), question(0.6, 60)
    seen = {n: audits.usual(n, asked.level, np.arange(AUDITS)) for n in LOOKS}
    monkeypatch.setattr(designs, "log_capitals", lambda *_: np.full((len(LOOKS), AUDITS, 4), np.inf))
    with pytest.raises(ArithmeticError, match="as a run answers"):
        by_itself(audits, asked, RUN, 0.0, seen)


def test_peeking_is_a_t_test_at_every_look():
    rng = np.random.default_rng(6)
    audits = PromptAudits(rng.standard_normal((60, 40)))
    found = dict(decided(audits, 0.001, 0.0, bounded=False, most=60))
    looks = [*range(12, 60, 8), 60]
    p = np.array([stats.ttest_1samp(audits.values[:n], 0).pvalue for n in looks])
    ever = (p < 0.05).any(axis=0)
    assert (np.isin(found[PEEKING].answer, [FIRST, SECOND]) == ever).all()
    np.testing.assert_array_equal(
        found[PEEKING].prompts, np.where(ever, np.array(looks)[(p < 0.05).argmax(axis=0)], 60)
    )
    assert list(found) == [name for name in DESIGNS if name != designs.STOPS_BOUNDED]
    assert found[GROUPS].covered.sum() >= found[PEEKING].covered.sum()


def test_rows_count_what_is_wrong():
    def some(*answers):
        return StoppedAudits(np.array([12, 20, 60]), np.array(answers), np.array([True, True, False]))

    parts = [[(STOPS, some(FIRST, SECOND, OPEN))], [(STOPS, some(EQUIVALENCE, FIRST, OPEN))]]
    null, at_delta, leaning = (rows(parts, truth, 0.5)[STOPS] for truth in (0.0, 0.5, 0.2))
    assert (null["wrong"], at_delta["wrong"], leaning["wrong"]) == (3, 2, 1)
    assert null | {"wrong": 0} == {
        "audits": 6, "wrong": 0, "covered": 4, "leans": 3, "small": 1, "mean": 30.7, "q80": 60
    }  # fmt: skip
