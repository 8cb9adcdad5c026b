"""Grids of prompts: every combination once, levels kept, and one line for what cannot be one."""

import csv
from pathlib import Path

import pytest

from probes.config.schema import Config, load_config
from probes.errors import UserError
from tests.probes.prompts.test_sets import WORDS, set_prompts

REFERENCE = Path(__file__).parents[3] / "lab" / "papers" / "reference"


def rows(name):
    with (REFERENCE / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_set_of_gep_is_that_of_its_tables():
    prompts = set_prompts("gep")
    attributes = [(row["attribute"], row["phrase"]) for row in rows("gep2023_attributes")]
    contexts = [row["context"] for row in rows("gep2023_contexts")]
    neutral = [{"setting": "neutral", "context": context} for context in contexts]
    explicit = [
        {"setting": "explicit", "attribute": attribute, "context": context}
        for attribute, _ in attributes
        for context in contexts
    ]
    assert [prompt.levels for prompt in prompts] == neutral + explicit
    assert [prompt.template for prompt in prompts[:16]] == [f"a {{person}} {context}" for context in contexts]
    assert prompts[16:] == set_prompts("gep", setting="explicit")
    phrases = dict(attributes)
    for prompt in prompts[16:]:
        stands = prompt.levels
        assert prompt.template == f"a {{person}} {phrases[stands['attribute']]} {stands['context']}"
    assert len({prompt.id for prompt in prompts}) == 16 + 240


def test_the_papers_sentences_have_a_capital_and_a_full_stop_but_for_the_bundled_models(tmp_path):
    """As the captions of the paper's figures 11 to 14 write them."""
    for model, written, expected in (
        ("stabilityai/sd-turbo", "", ("A woman riding a bike.", "A man in a dress jumping into the air.")),
        ("toyworld-null", "", ("a woman riding a bike", "a man in a dress jumping into the air")),
        (
            "toyworld",
            ", written: paper",
            ("A woman riding a bike.", "A man in a dress jumping into the air."),
        ),
        ("a/b", ", written: plain", ("a woman riding a bike", "a man in a dress jumping into the air")),
    ):
        found = config(tmp_path, f"model: {model}\nprompts: {{from: gep{written}}}\n").prompts
        texts = [prompt.template.replace("{person}", word) for prompt in found for word in ("woman", "man")]
        assert len(texts) == 512 and set(expected) <= set(texts)
        assert [prompt.id for prompt in found] == [prompt.id for prompt in set_prompts("gep")]


def test_the_occupations_are_said_as_in_the_paper():
    lawyer, *_ = set_prompts("occupations")
    assert [lawyer.texts[name] for name in WORDS] == [
        "A photo of a lawyer.",
        "A photo of a female lawyer.",
        "A photo of a male lawyer.",
    ]
    assert lawyer.levels == {"setting": "neutral", "context": "lawyer"}


def config(tmp_path, text):
    path = tmp_path / "b.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config(path)


def test_a_grid_of_ones_own_and_what_a_run_keeps_of_it(tmp_path):
    text = """
prompts:
  grid: "on {when} a {person} {context}"
  context: [riding a bike, reading]
  when: {monday: Monday, sunday: a Sunday}
"""
    made = config(tmp_path, text)
    assert [prompt.template for prompt in made.prompts] == [
        "on Monday a {person} riding a bike",
        "on Monday a {person} reading",
        "on a Sunday a {person} riding a bike",
        "on a Sunday a {person} reading",
    ]
    again = Config.stored(made.resolved())
    assert [dict(prompt.levels) for prompt in again.prompts] == [
        {"when": when, "context": context}
        for when in ("monday", "sunday")
        for context in ("riding a bike", "reading")
    ]
    assert Config.model_validate(made.resolved()) == made


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ('{grid: "a {person} x"}', "prompts.grid: expected places such as {context}, each once, got none"),
        ('{grid: "{a}", a: [b]}', "prompts.grid: expected a text with one {person}, got none in '{a}'"),
        ('{grid: "a {person} {a}"}', "expected the levels of {a}, found none: add `a: [...]`"),
        ('{grid: "a {person} {a}", a: [b, b]}', "prompts.a: expected each level once, got one twice"),
        ('{grid: "a {person} {a}", a: [b, 1]}', "prompts.a[1]: expected a text, got 1: quote it"),
        (
            '{grid: "a {person} {a}", a: x}',
            "prompts.a: expected a list of levels, or the phrase of each ({boots: in boots}), got 'x'",
        ),
        ('{grid: "a {person} {a}", a: ["{x}"]}', "prompts.a[0]: expected a text without braces, got '{x}'"),
        (
            "{from: gep, setting: implicit}",
            "prompts.setting: expected one of gep's (neutral, explicit), got 'implicit'",
        ),
        (
            "{from: professions, written: paper}",
            "prompts.written: expected a set that takes it (gep), got 'professions'",
        ),
        (
            "{from: x.json, setting: a}",
            "prompts.setting: expected a set that takes it (dalleval, gep), got 'x.json'",
        ),
        (
            '[{text: "a {person}", levels: {a: b}, feminine: y}]',
            "an id and levels, got `feminine` beside them",
        ),
    ],
)
def test_what_is_no_grid_ends_in_one_line(tmp_path, prompts, message):
    with pytest.raises(UserError) as error:
        config(tmp_path, f"prompts: {prompts}\n")
    assert message in str(error.value)
    assert "\n" not in str(error.value)
