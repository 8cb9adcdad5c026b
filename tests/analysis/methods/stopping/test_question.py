"""What is asked is registered, and answered by the interval alone."""

import dataclasses
import math
from types import SimpleNamespace

import pytest

from analysis.methods.stopping.gaps import SequentialGap
from analysis.methods.stopping.looks import prompts_at_looks
from analysis.methods.stopping.method import METHOD, looks_table
from analysis.methods.stopping.question import StopQuestion
from analysis.metrics.registry import definition
from analysis.report.section import sentences
from analysis.tables.spec import Measured
from probes.config.schema import Config
from probes.errors import UserError
from probes.runs.record import REGISTERED

PROMPTS = [f"a {{person}} number {number}" for number in range(40)]


def config(**stop):
    return Config(prompts=PROMPTS, stop=stop)


def look(low, high, n=24):
    gap = (low + high) / 2 if math.isfinite(low + high) else 0.0
    return SequentialGap(n, gap, low, high, low, high, math.nan, 2.0)


@pytest.mark.parametrize(
    ("question", "low", "high", "answer"),
    [
        ("gap", 0.01, 0.2, "first"),
        ("gap", -0.2, -0.01, "second"),
        ("gap", -0.01, 0.04, "equivalence"),
        ("direction", -0.01, 0.04, ""),
        ("equivalence", 0.01, 0.04, "equivalence"),
        ("interval", 0.3, 0.39, "interval"),
        ("gap", -math.inf, math.inf, ""),
    ],
)
def test_an_answer_is_what_the_interval_says(question, low, high, answer):
    asked_for = StopQuestion.of(config(question=question, within=0.05))
    assert asked_for.answer(look(low, high)) == answer
    assert asked_for.answer(look(low, high, n=11)) == ""  # fewer than `fewest`


def test_what_would_matter_is_the_run_s_own():
    assert StopQuestion.of(config()).within == definition("cosine").least_delta
    stated = Config(prompts=PROMPTS, stop={}, measure={"equivalence": {"cosine": 0.07}})
    assert StopQuestion.of(stated).within == 0.07
    words = Config(prompts=PROMPTS, stop={}, measure={"primary": "t", "text_readout": "eos"})
    assert StopQuestion.of(words).metric == "cosine_eos"


def test_what_an_observer_gives_cannot_be_asked_about():
    with pytest.raises(UserError, match="stop: expected a measure that is known once an image is generated"):
        StopQuestion.of(Config(prompts=PROMPTS, stop={}, measure={"primary": "clip"}))


@pytest.mark.parametrize(
    ("seeds", "part", "every", "expected"),
    [
        ([0, 1, 2], 24, None, {2: 16, 3: 24, 4: 32, 5: 40}),
        # a part may end within a prompt
        ([0, 1], 9, 1, {3: 13, 4: 18, 5: 22, 6: 27, 7: 31, 8: 36, 9: 40}),
        ([0], 8, 16, {2: 16, 4: 32, 5: 40}),  # the last look is made in any case
    ],
)
def test_it_is_asked_after_whole_prompts(seeds, part, every, expected):
    one = Config(
        prompts=PROMPTS, seeds=seeds, generate={"part_triplets": part}, stop={"every": every} if every else {}
    )
    assert prompts_at_looks(one, StopQuestion.of(one)) == expected


def test_the_table_and_the_words_say_the_same():
    asked = config(question="direction")
    question = StopQuestion.of(asked)
    table = looks_table(question, [look(-math.inf, math.inf, 16), look(0.01, 0.21)])
    assert table["answer"].tolist() == ["", "masculine"]
    assert table["reason"].tolist() == ["too few prompts to rule anything out", ""]
    assert table["low"].isna().tolist() == [True, False]

    def answer(rows):
        run = SimpleNamespace(config=asked, meta={REGISTERED: question.record(), "images": 72})
        (said,) = sentences(Measured(METHOD, {"model": run}, {"stopping": rows}), METHOD.tables[0])
        return said

    assert answer(table) == (
        "Answered after 24 prompts of at most 40: final latents generated from neutral prompts are nearer to those of"
        " masculine than of feminine prompts (of these words alone). The gap is +0.110 [0.010, 0.210]."
    )
    assert answer(table.iloc[:1]).startswith("Not answered by 16 prompts of at most 40: the gap is")
    interval = dataclasses.replace(question, question="interval", within=0.05)
    assert interval.text("neutral").endswith("to within ±0.050?")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"sampler": {"noise": "shared"}},
            "expected prompts that are independent, got `sampler.noise: shared`: take `own`, or leave it out",
        ),
        ({"limit": 5}, "expected at least 6 prompts, got 5"),
        (
            {"indicators": {"neutral": "person", "feminine": "woman"}},
            "expected words that are compared, got no contrast",
        ),
        ({"stop": {"within": 0}}, "stop.within"),
        ({"stop": {"question": "soon"}}, "stop.question"),
        ({"stop": {"fewest": 5}}, "stop.fewest"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(more, said):
    with pytest.raises(UserError, match=said) as error:
        Config(**{"prompts": PROMPTS, "stop": {}, **more})
    assert "\n" not in str(error.value)


def test_prompts_are_drawn_in_an_order_that_is_a_function_of_their_set():
    def order(**fields):
        return [
            prompt.template for prompt in Config(prompts=fields.pop("prompts", PROMPTS), **fields).prompts
        ]

    drawn = order(stop={"seed": 1})
    assert sorted(drawn) == sorted(PROMPTS)
    assert drawn != PROMPTS
    assert order(prompts=PROMPTS[::-1], stop={"seed": 1}) == drawn
    assert order(prompts=drawn, stop={"seed": 1}) == drawn
    assert order(stop={"seed": 2}) != drawn
    assert order(stop={"order": "listed"}) == PROMPTS
    limited = order(limit=20, stop={})
    assert set(limited[:20]) == set(PROMPTS[:20])
