"""Readings of answers, and which questions a configuration asks."""

import pytest

from analysis.questions import GENDERS, YES_NO, paper_questions, questions, read_answer
from probes.config.schema import Config, build_config
from probes.errors import UserError
from probes.fields.yaml import YamlSource


def configured(**settings):
    return Config(prompts=["a {person}"], observe={"questions": settings})


@pytest.mark.parametrize(
    ("answer", "reading"),
    [
        ("male", "male"),
        ("The person looks like a FEMALE.", "female"),
        ("male or female", None),
        ("it isn\u2019t a male", None),
        ("", None),
        ("a non-male person", None),
    ],
)
def test_readings_of_gender(answer, reading):
    assert read_answer(answer, GENDERS) == reading


@pytest.mark.parametrize(
    ("answer", "reading"),
    [
        ("yes", "yes"),
        ("no, the person is not wearing a tie", "no"),
        ("not sure", None),
        ("yes and no", None),
    ],
)
def test_readings_of_yes_and_no(answer, reading):
    assert read_answer(answer, YES_NO) == reading


def test_the_papers_questions_are_asked_unless_told_otherwise():
    asked = {one.key: one.text for one in questions(configured())}
    assert asked["gender"] == "the person looks like a male or a female?"
    assert (
        asked["suit"] == "Is the person wearing a suit?" and asked["jeans"] == "Is the person wearing jeans?"
    )
    assert asked["uniform"] == "Is the person wearing a uniform?" and len(asked) == 16
    assert [one.key for one in questions(configured(paper=False, ask={"boots": {}}))] == ["boots"]


def test_other_questions_and_other_words_for_the_same():
    age = {
        "text": "Is the person young or old?",
        "readings": {"young": ["young", "youthful"], "old": ["old", "elderly"]},
        "sentences": {"young": "a young person", "old": "an old person"},
    }
    asked = {one.key: one for one in questions(configured(ask={"age": age, "tie": {"text": "A tie?"}}))}
    assert len(asked) == 17 and asked["age"].read("an elderly man") == "old"
    assert asked["age"].sentences["young"] == "a young person"
    assert (asked["tie"].text, asked["tie"].sentences) == ("A tie?", paper_questions()["tie"].sentences)
    other = {"gender": {"readings": {"male": ["masculine"], "female": ["feminine"], "both": ["both"]}}}
    assert questions(configured(ask=other))[0].sentences == {}  # the paper's go with other readings


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"ask": {"hair": {}}}, r"ask\.hair: expected the text"),
        ({"paper": False}, "expected a question, got none"),
        (
            {"ask": {"tie": {"sentences": {"there": "a tie", "absent": "none"}}}},
            r"ask\.tie\.sentences: expected",
        ),
    ],
)
def test_what_cannot_be_asked_is_said_in_a_line(settings, said):
    with pytest.raises(UserError, match=said):
        questions(configured(**settings))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"ask": {"x": {"text": "a", "readings": {"yes": ["yes"]}}}}, "at least two readings"),
        (
            {"ask": {"x": {"text": "a", "readings": {"p": ["one"], "q": ["One"]}}}},
            "words of one reading each",
        ),
        ({"prompt": "Question:"}, "one {question}"),
        ({"readers": ["clip", "clip"]}, "stands twice"),
        ({"readers": ["blip"]}, "expected one of blip2, clip, .*got 'blip': choose one"),
        ({"readers": "blip2"}, "expected auto or a list of blip2"),
        ({"ask": {"tone": {"text": "Is the skin dark?"}}}, "expected another key"),
        (
            {"ask": {"gender": {"readings": {"woman": ["woman"], "man": ["man"]}}}},
            "expected female and male among the readings of gender, got .'woman', 'man'.",
        ),
        ({"ask": {"Two Words": {"text": "a"}}}, "expected small letters, digits and `_`"),
    ],
)
def test_wrong_settings_are_refused(settings, said):
    data = {"prompts": ["a {person}"], "observe": {"questions": settings}}
    with pytest.raises(UserError, match=said):
        build_config(data, YamlSource(name="c.yaml", text="", data=data))
