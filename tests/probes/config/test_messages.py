"""What pydantic finds is said in this program's words: every place of the configuration, every kind of wrong value."""

import re
from typing import get_args, get_origin

import pytest
from pydantic import BaseModel

from probes.config.generation import Images
from probes.config.schema import Config, build_config
from probes.errors import UserError
from probes.fields.yaml import parse_yaml
from probes.prompts.forms import PromptSource

WRONG = [
    *(None, True, 3, -1, -1e9, 1e9, 10**20, 1.5, float("nan"), float("inf"), "", "a", "../x", "x" * 3000),
    *([], [1], [""], ["a"] * 30, [[]], {}, {"a": 1}, {"": ""}, {"a": {}}, {"a": []}, {"a": [1]}),
    *({"a": {"b": float("inf")}}, {"a": {"b": []}}, {"a": {"b": [1, 2]}}),
]
RAW = re.compile(
    r"\b(should|Input|String|List|Dictionary|Value|Tuple|Set|validation|error|pydantic)\b|\[type="
)
RAW_PLACE = re.compile(r"function-|literal\[|list\[|dict\[|constrained-|nullable|\.(str|int|float|bool)\b")
SOURCE = parse_yaml("name: a", "triplets.yaml")


def models(annotation):
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from models(argument)


def places(model, at=()):
    """Every place of a model, through its sections; under a name of the user's own, `a`."""
    for name, field in model.model_fields.items():
        place = (*at, field.alias or name)
        yield place
        for section in models(field.annotation):
            yield from places(section, (*place, "a") if get_origin(field.annotation) is dict else place)


def nested(place, value):
    for key in reversed(place):
        value = {key: value}
    return value


def said(data):
    try:
        build_config(data, SOURCE)
    except UserError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("model", "under", "beside"),
    [
        (Config, (), {"prompts": ["a {person}"]}),
        (PromptSource, ("prompts",), {"from": "dalleval"}),
        (PromptSource, ("prompts",), {"from": "paintskills"}),
        (Images, ("images",), {"from": "images.csv"}),
    ],
)
def test_every_wrong_value_is_said_in_our_words(model, under, beside):
    lines = [
        line
        for place in places(model)
        for value in WRONG
        if (line := said(nested(under, {**beside, **nested(place, value)})))
    ]
    assert len(lines) > 50
    raw = [line for line in lines if RAW.search(line) or RAW_PLACE.search(line.partition(": expected")[0])]
    assert not raw, raw[:5]
    assert not [line for line in lines if line.count(": ") < 2]  # a place, what is wrong, a remedy


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"measure": {"level": 1.0}}, "measure.level: expected a number below 1.0, got 1.0: choose another"),
        (
            {"edit": {"amount": float("nan")}},
            "edit.amount: expected a number that is finite, got nan: choose",
        ),
        ({"edit": {"direction": ["a"]}}, "edit.direction: expected at least 2 entries, got 1: write more"),
        ({"name": "x" * 101}, "name: expected at most 100 characters, got 101: shorten it"),
    ],
)
def test_bounds_and_sizes(data, expected):
    line = re.sub(r" \(.*?\)", "", said({"prompts": ["a {person}"], **data}))
    assert expected in line


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"trace": {"windows": "x"}}, "trace.windows: expected a number from 0 to 1000 or a list of windows"),
        (
            {"cluster": {"gpus_per_worker": 1.5}},
            "cluster.gpus_per_worker: expected `auto`, 0, a share of a GPU",
        ),
        (
            {"gep": {"variants": {"a": {"subject": 1}}}},
            "gep.variants.a.subject: unknown key, got 1: did you mean",
        ),
        (
            {"indicators": {"neutral": [5], "a": "b"}},
            "indicators.neutral[0]: expected a word, got 5: quote it",
        ),
        (
            {"indicators": {"neutral": "a", "f": []}},
            "indicators.f: expected a word, and its synonyms, got none",
        ),
        (
            {"indicators": {"neutral": "a", "f": ["b", "lady"], "m": ["c", "lady"]}},
            "indicators.m[1]: expected a synonym with a name of its own, got 'lady', and `lady` is there: choose"
            " another, or write it as `m_2: {word: ..., control: m}`",
        ),
        (
            {"indicators": {"neutral": "a", "f": ["b", {"word": "c", "control": True}]}},
            "indicators.f[1].control: expected no `control` in a list",
        ),
    ],
)
def test_of_several_kinds_the_innermost_fault_is_told_or_what_the_place_takes(data, expected):
    line = said({"prompts": ["a {person}"], **data}).replace(" (nothing is written there)", "")
    assert line.startswith(f"triplets.yaml: {expected}")
