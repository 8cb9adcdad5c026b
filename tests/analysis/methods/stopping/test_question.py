"""What is asked is registered, and answered by the interval alone."""

import dataclasses
import math

import pytest

from analysis.methods.stopping.columns import looks_table
from analysis.methods.stopping.expected import expected_prompts
from analysis.methods.stopping.gaps import SequentialGap
from analysis.methods.stopping.looks import prompts_at_looks, registered
from analysis.methods.stopping.question import StopQuestion
from analysis.methods.stopping.wording import answer_text, question_text
from analysis.metrics.registry import definition
from probes.config.schema import Config
from probes.errors import UserError
from probes.runs.store import Run

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
        ("gap", -0.06, 0.04, ""),
        ("direction", -0.01, 0.04, ""),
        ("direction", 0.01, 0.04, "first"),
        ("equivalence", 0.01, 0.04, "equivalence"),
        ("equivalence", 0.01, 0.06, ""),
        ("interval", 0.3, 0.39, "interval"),
        ("interval", 0.3, 0.41, ""),
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


@pytest.mark.parametrize(
    ("primary", "observer", "kinds"),
    [("z0", "", ()), ("ssim", "", ()), ("clip", "clip", ("features/clip",))],
)
def test_a_measure_of_features_needs_an_observer(primary, observer, kinds):
    asked = StopQuestion.of(Config(prompts=PROMPTS, stop={}, measure={"primary": primary}))
    assert (asked.observer, asked.observed) == (observer, kinds)


CHECKED = {"engine": "toyworld-checker", "features": []}


def test_an_object_is_asked_about_by_its_name_in_tables():
    one = Config(prompts=PROMPTS, stop={"of": {"object": "Skirts"}}, observe=CHECKED)
    asked = StopQuestion.of(one)
    assert (asked.measure, asked.metric, asked.within, asked.reach) == ("object", "skirt", 0.1, "measure")
    assert (asked.observer, asked.observed) == ("objects", ("objects", "observed"))
    words = [
        question_text(dataclasses.replace(asked, question=name), "neutral", asked.shown)
        for name in ("direction", "gap", "equivalence", "interval")
    ]
    assert words[0] == "Is “skirt” detected in more images of masculine or of feminine prompts?"
    assert words[1].endswith(", or is the difference of both shares smaller than 0.100?")
    assert words[2].endswith("in which “skirt” is detected differ by less than 0.100?")
    assert words[3].endswith("differ, to within ±0.100?")
    table = looks_table(asked, [look(-0.4, -0.2)])
    assert answer_text(asked, table, "neutral", asked.shown) == (
        "Answered after 24 prompts of at most 40: “skirt” is detected in more images of feminine than of masculine"
        " prompts (of these words alone). The difference of shares is −0.300 [−0.400, −0.200]."
    )


@pytest.mark.parametrize(
    ("observe", "name", "said"),
    [
        (
            CHECKED,
            "skrit",
            r"looked for in every image, such as person, boot, slipper, got 'skrit': did you mean skirt",
        ),
        (CHECKED, "women", r"stop.of.object: expected a thing, got 'women', a word for persons"),
        (
            {"objects": False},
            "skirt",
            r"stop: expected images that objects looks at, got none \(`observe.objects`",
        ),
        ({"tags": ["prompt"]}, "skirt", r"looked for in every image, got 'skirt', and no list of any"),
    ],
)
def test_an_object_that_nobody_looks_for_is_refused_in_one_line(observe, name, said):
    with pytest.raises(UserError, match=said) as error:
        StopQuestion.of(Config(prompts=PROMPTS, stop={"of": {"object": name}}, observe=observe))
    assert "\n" not in str(error.value)


CONTEXTS = [
    {"text": f"a {{person}} in room {number}", "levels": {"context": f"in room {number}"}}
    for number in range(8)
]


def named(attribute):
    return [{**one, "levels": {**one["levels"], "attribute": attribute}} for one in CONTEXTS]


OBJECTS_OFF = {"objects": False, "features": []}


def test_an_attribute_is_asked_about_by_the_audit_s_clip():
    one = Config(prompts=CONTEXTS, stop={"of": {"attribute": "skirt"}}, observe=OBJECTS_OFF)
    asked = StopQuestion.of(one)
    assert (asked.measure, asked.metric, asked.within, asked.reach) == ("attribute", "skirt", 0.1, "measure")
    assert (asked.observer, asked.observed) == ("clip", ("features/clip",))
    assert StopQuestion.stored(asked.record()) == asked
    words = [
        question_text(dataclasses.replace(asked, question=name), "neutral", asked.shown)
        for name in ("direction", "gap", "equivalence", "interval")
    ]
    assert words[0] == "Is “skirt” more probable (CLS) in images of masculine or of feminine prompts?"
    assert words[1].endswith(", or is the difference of both probabilities smaller than 0.100?")
    assert words[2] == (
        "Do the mean probabilities of “skirt” (CLS) in images of masculine and of feminine prompts differ by less than"
        " 0.100?"
    )
    table = looks_table(asked, [look(-0.4, -0.2)])
    assert answer_text(asked, table, "neutral", asked.shown) == (
        "Answered after 24 prompts of at most 8: “skirt” is more probable (CLS) in images of feminine than of masculine"
        " prompts (of these words alone). The difference of probabilities is −0.300 [−0.400, −0.200]."
    )
    explicit = Config(prompts=named("dress"), stop={"of": {"attribute": "dress"}}, observe=OBJECTS_OFF)
    assert StopQuestion.of(explicit).metric == "dress"


@pytest.mark.parametrize(
    ("more", "name", "said"),
    [
        ({"prompts": PROMPTS}, "skirt", r"stop.of.attribute: expected prompts with contexts"),
        ({}, "skrit", r"stop.of.attribute: expected one of boots, .*, got 'skrit': did you mean skirt\?"),
        (
            {"prompts": [*named("dress")[:4], *named("skirt")[4:]]},
            "skirt",
            r"prompts that name no attribute, or all of them 'skirt', got some that name 'dress'",
        ),
        ({"gep": {"clip": "dino"}}, "skirt", r"gep.clip: expected a CLIP, got 'dino'"),
        ({"cluster": {"address": "local"}}, "skirt", r"needs no observer on a cluster"),
    ],
)
def test_an_attribute_that_is_not_told_of_every_image_is_refused_in_one_line(more, name, said):
    values = {"prompts": CONTEXTS, "stop": {"of": {"attribute": name}}, "observe": OBJECTS_OFF, **more}
    with pytest.raises(UserError, match=said) as error:
        StopQuestion.of(Config(**values))
    assert "\n" not in str(error.value)


def test_attributes_of_few_contexts_have_no_classifiers():
    two = Config(
        prompts=CONTEXTS[:1],
        seeds=[*range(8)],
        stop={"of": {"attribute": "skirt"}},
        observe=OBJECTS_OFF,
    )
    with pytest.raises(UserError, match=r"expected contexts enough to train classifiers by, got too few"):
        StopQuestion.of(two)


def asking(of, **questions):
    observe = {**OBJECTS_OFF, "questions": {"readers": ["toyworld-vqa"], **questions}}
    return Config(prompts=PROMPTS, stop={"of": of}, observe=observe)


def test_an_answer_is_asked_about_by_its_reader():
    asked = StopQuestion.of(asking({"question": "gender", "answer": "female"}))
    assert (asked.measure, asked.metric, asked.reading) == ("question", "gender", "female")
    assert (asked.observer, asked.observed) == ("attributes/toyworld-vqa", ("attributes/toyworld-vqa",))
    assert StopQuestion.stored(asked.record()) == asked
    assert question_text(dataclasses.replace(asked, question="direction"), "neutral", asked.shown) == (
        "Is “female” the answer to “gender” for more images of masculine or of feminine prompts?"
    )
    assert question_text(dataclasses.replace(asked, question="interval"), "neutral", asked.shown) == (
        "How much do the shares of images of masculine and of feminine prompts for which “female” is the answer to"
        " “gender” differ, to within ±0.100?"
    )
    worn = StopQuestion.of(
        asking(
            {"question": "suit", "reader": "toyworld-checker"}, readers=["toyworld-vqa", "toyworld-checker"]
        )
    )
    assert (worn.reading, worn.observer) == ("yes", "attributes/toyworld-checker")


@pytest.mark.parametrize(
    ("of", "questions", "said"),
    [
        ({"question": "gendre"}, {}, r"stop.of.question: expected one of gender, .*: did you mean gender\?"),
        ({"question": "gender"}, {}, r"stop.of.answer: expected one of female, male, got 'yes': name one"),
        (
            {"question": "suit"},
            {"readers": []},
            r"expected a reader of the images, got none: name one in observe.questions.readers",
        ),
        (
            {"question": "suit"},
            {"readers": ["toyworld-vqa", "toyworld-checker"]},
            r"stop.of.reader: expected one of toyworld-vqa and toyworld-checker, got none: name one",
        ),
        (
            {"question": "suit", "reader": "toyworld-checker"},
            {},
            r"stop: expected images that attributes/toyworld-checker looks at, got none",
        ),
        (
            {"question": "hair"},
            {"readers": ["clip"], "ask": {"hair": {"text": "Is the hair long?"}}},
            r"stop.of.reader: expected a question that has sentences for CLIP, got hair",
        ),
        (
            {"question": "suit", "object": "suit"},
            {},
            r"stop.of: expected one of object, attribute and question",
        ),
        ({}, {}, r"stop.of: expected one of object, attribute and question, got none"),
        ({"object": "suit", "answer": "no"}, {}, r"stop.of.answer: expected a question, got object"),
        ({"question": "suit", "reader": "me"}, {}, r"stop.of.reader"),
    ],
)
def test_an_answer_that_nobody_gives_is_refused_in_one_line(of, questions, said):
    with pytest.raises(UserError, match=said) as error:
        StopQuestion.of(asking(of, **questions))
    assert "\n" not in str(error.value)


def test_a_question_that_was_registered_without_an_observer_is_read():
    asked = StopQuestion.of(config())
    former = {name: value for name, value in asked.record().items() if name != "observer"}
    assert StopQuestion.stored(former) == asked


def test_another_question_is_another_run(tmp_path):
    first = config(question="direction")
    run = Run(tmp_path, {"stopping": StopQuestion.of(first).record()})
    assert registered(run, first) == StopQuestion.of(first)
    assert StopQuestion.stored(run.meta["stopping"]) == StopQuestion.of(first)
    with pytest.raises(
        UserError, match=r"holds another run: the registered question's measure is 'z0' there"
    ):
        registered(run, Config(prompts=PROMPTS, stop={"question": "direction"}, measure={"primary": "ssim"}))


def test_it_is_known_by_its_hash():
    records = [StopQuestion.of(config(within=within)).record() for within in (0.05, 0.05, 0.06)]
    assert records[0] == records[1]
    assert records[0]["sha256"] != records[2]["sha256"]


@pytest.mark.parametrize(
    ("seeds", "part", "every", "expected"),
    [
        ([0], 8, None, [0, 16, 24, 32, 40]),
        ([0, 1, 2], 24, None, [0, 16, 24, 32, 40]),
        ([0, 1], 9, None, [0, 0, 13, 18, 22, 27, 31, 36, 40]),  # a part may end within a prompt
        ([0], 8, 16, [0, 16, 0, 32, 40]),  # the last look is made in any case
    ],
)
def test_it_is_asked_after_whole_prompts(seeds, part, every, expected):
    one = Config(
        prompts=PROMPTS, seeds=seeds, generate={"part_triplets": part}, stop={"every": every} if every else {}
    )
    assert prompts_at_looks(one, StopQuestion.of(one)) == expected


@pytest.mark.parametrize(
    ("prompts", "seeds", "part", "expected"),
    [(1, 20, 5, [0, 0, 15, 20]), (3, 14, 12, [0, 0, 12, 14]), (3, 14, 13, [0, 0, 13, 14])],
)
def test_over_seeds_it_is_asked_after_whole_seeds(prompts, seeds, part, expected):
    one = Config(
        prompts=PROMPTS[:prompts],
        seeds=[*range(seeds)],
        generate={"part_triplets": part},
        stop={"over": "seeds"},
    )
    question = StopQuestion.of(one)
    assert (question.given, question.unit, question.most) == (prompts, "seed", seeds)
    assert prompts_at_looks(one, question) == expected


def test_a_run_of_one_prompt_stops_over_its_seeds_and_others_over_prompts():
    one = Config(prompts=PROMPTS[:1], seeds=[*range(20)], stop={})
    assert (one.stops_over, StopQuestion.of(one).given) == ("seeds", 1)
    several = Config(prompts=PROMPTS, seeds=[*range(20)], stop={})
    assert (several.stops_over, StopQuestion.of(several).given) == ("prompts", 0)
    assert Config(prompts=PROMPTS[:1], seeds=[*range(20)]).stops_over == "prompts"  # nothing stops it


def test_over_seeds_noise_may_be_shared_and_prompts_keep_their_order():
    one = Config(prompts=PROMPTS, seeds=[*range(6)], stop={"over": "seeds"}, sampler={"noise": "shared"})
    assert one.prompts == PROMPTS


def test_what_no_seed_alters_is_refused_over_seeds():
    text = {"measure": {"primary": "t"}, "seeds": [*range(20)], "prompts": PROMPTS}
    assert StopQuestion.of(Config(**text, stop={})).metric.startswith("cosine_")
    with pytest.raises(
        UserError, match=r"stop: expected a measure that seeds alter, got measure.primary `t`"
    ):
        StopQuestion.of(Config(**text, stop={"over": "seeds"}))


def test_an_answer_over_seeds_is_about_these_prompts():
    one = Config(prompts=PROMPTS[:3], seeds=[*range(40)], stop={"question": "direction", "over": "seeds"})
    question = StopQuestion.of(one)
    table = looks_table(question, [look(-math.inf, math.inf, 16), look(0.01, 0.21)])
    assert table["unit"].tolist() == ["seed", "seed"]
    assert table["reason"].iloc[0] == "too few seeds to rule anything out"
    assert answer_text(question, table, "neutral", definition("cosine")) == (
        "Answered after 24 seeds of at most 40: final latents generated from neutral prompts are nearer to those of"
        " masculine than of feminine prompts (of these words and these 3 prompts alone). The gap is +0.110 [0.010,"
        " 0.210]."
    )


def test_of_few_prompts_the_one_look_is_at_the_end():
    few = Config(prompts=PROMPTS[:8], stop={}, generate={"part_triplets": 3})
    question = StopQuestion.of(few)
    assert question.fewest == 8
    assert prompts_at_looks(few, question) == [0, 0, 8]


def test_the_table_and_the_words_say_the_same():
    question = StopQuestion.of(config(question="direction"))
    table = looks_table(question, [look(-math.inf, math.inf, 16), look(0.01, 0.21)])
    assert table["answer"].tolist() == ["", "masculine"]
    assert table["reason"].tolist() == ["too few prompts to rule anything out", ""]
    assert table["low"].isna().tolist() == [True, False]
    assert table["p_anytime"].tolist() == [0.5, 0.5]
    metric = definition("cosine")
    assert answer_text(question, table, "neutral", metric) == (
        "Answered after 24 prompts of at most 40: final latents generated from neutral prompts are nearer to those of"
        " masculine than of feminine prompts (of these words alone). The gap is +0.110 [0.010, 0.210]."
    )
    still_open = answer_text(question, table.iloc[:1], "neutral", metric)
    assert still_open.startswith("Not answered by 16 prompts of at most 40: the gap is")
    interval = dataclasses.replace(question, question="interval", within=0.05)
    assert question_text(interval, "neutral", metric).endswith("to within ±0.050?")


def test_a_small_gap_takes_more_prompts():
    needed = [expected_prompts(effect) for effect in (2, 1, 0.5, 0.25)]
    assert needed == sorted(needed)
    assert expected_prompts(0.5, level=0.99) > expected_prompts(0.5)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"sampler": {"noise": "shared"}},
            "expected prompts that are independent, got `sampler.noise: shared`: take `own`, or `over: seeds`",
        ),
        ({"seeds": [0, 1], "stop": {"over": "seeds"}}, "expected at least 6 seeds, got 2"),
        ({"stop": {"over": "words"}}, "stop.over"),
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
    drawn = config(seed=1).prompts
    assert sorted(drawn) == sorted(PROMPTS)
    assert drawn != PROMPTS
    assert Config(prompts=PROMPTS[::-1], stop={"seed": 1}).prompts == drawn
    assert Config(prompts=drawn, stop={"seed": 1}).prompts == drawn
    assert config(seed=2).prompts != drawn
    assert config(order="listed").prompts == PROMPTS
    limited = Config(prompts=PROMPTS, limit=20, stop={}).prompts
    assert set(limited[:20]) == set(PROMPTS[:20])


def test_each_level_has_its_share_of_any_beginning():
    prompts = [
        {"text": f"a {{person}} {number}", "levels": {"place": "rare" if number % 4 == 0 else "usual"}}
        for number in range(80)
    ]
    drawn = Config(prompts=prompts, stop={}).prompts
    for n in range(4, 81):
        rare = sum(prompt["levels"]["place"] == "rare" for prompt in drawn[:n])
        assert abs(rare - n / 4) <= 1, n


def test_what_is_observed_cannot_be_asked_about_on_a_cluster():
    observed = Config(
        prompts=PROMPTS, stop={"of": {"object": "skirt"}}, observe=CHECKED, cluster={"address": "local"}
    )
    with pytest.raises(UserError, match=r"stop: expected a question that needs no observer on a cluster"):
        StopQuestion.of(observed)
