"""Grids of prompts: every combination once, levels kept, and one line for what cannot be one."""

import csv
from pathlib import Path

import pytest
from transformers import CLIPTokenizer

from probes.config.checks import levels, template
from probes.config.loading import load_config
from probes.config.schema import Config
from probes.errors import UserError
from probes.prompts import grids, sets
from probes.toyworld import WEIGHTS

REFERENCE = Path(__file__).parents[3] / "lab" / "papers" / "reference"
WORDS = {"neutral": ("person", "people"), "feminine": ("woman", "women"), "masculine": ("man", "men")}


def rows(name):
    with (REFERENCE / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_set_of_gep_is_that_of_its_tables():
    prompts = sets.prompts("gep", WORDS, "neutral")
    attributes = [(row["attribute"], row["phrase"]) for row in rows("gep2023_attributes")]
    contexts = [row["context"] for row in rows("gep2023_contexts")]
    neutral = [{"setting": "neutral", "context": context} for context in contexts]
    explicit = [
        {"setting": "explicit", "attribute": attribute, "context": context}
        for attribute, _ in attributes
        for context in contexts
    ]
    assert [prompt["levels"] for prompt in prompts] == neutral + explicit
    assert [prompt["text"] for prompt in prompts[:16]] == [f"a {{person}} {context}" for context in contexts]
    assert prompts[16:] == sets.prompts("gep", WORDS, "neutral", setting="explicit")
    phrases = dict(attributes)
    for prompt in prompts[16:]:
        stands = prompt["levels"]
        assert prompt["text"] == f"a {{person}} {phrases[stands['attribute']]} {stands['context']}"
    assert len({prompt["id"] for prompt in prompts}) == 16 + 240


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
        texts = [prompt["text"].replace("{person}", word) for prompt in found for word in ("woman", "man")]
        assert len(texts) == 512 and set(expected) <= set(texts)
        assert [prompt["id"] for prompt in found] == [
            prompt["id"] for prompt in sets.prompts("gep", WORDS, "neutral")
        ]


def test_the_bundled_models_tokenizers_know_no_capital_and_read_a_full_stop():
    """So a full stop would alter the images of the bundled models, in whose captions there is none."""
    folders = [path for path in sorted(WEIGHTS.glob("*/tokenizer"))]
    assert len(folders) >= 3
    for folder in folders:
        tokens = CLIPTokenizer.from_pretrained(folder)
        plain = tokens("a woman riding a bike")["input_ids"]
        assert tokens("A woman riding a bike")["input_ids"] == plain
        assert tokens("A woman riding a bike.")["input_ids"] != plain


def test_the_occupations_are_said_as_in_the_paper():
    lawyer, *_ = sets.prompts("occupations", WORDS, "neutral")
    assert [lawyer[name] for name in WORDS] == [
        "A photo of a lawyer.",
        "A photo of a female lawyer.",
        "A photo of a male lawyer.",
    ]
    assert lawyer["levels"] == {"setting": "neutral", "context": "lawyer"}


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
    assert [template(prompt) for prompt in made.prompts] == [
        "on Monday a {person} riding a bike",
        "on Monday a {person} reading",
        "on a Sunday a {person} riding a bike",
        "on a Sunday a {person} reading",
    ]
    again = Config.stored(made.resolved())
    assert [dict(levels(prompt)) for prompt in again.prompts] == [
        {"when": when, "context": context}
        for when in ("monday", "sunday")
        for context in ("riding a bike", "reading")
    ]
    assert Config.model_validate(made.resolved()) == made


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ('{grid: "a {person} x"}', "prompts.grid: expected places such as {context}, each once, got none"),
        ('{grid: "a {person} {a} {a}", a: [b]}', "each once, got {a} twice: write them"),
        ('{grid: "{a}", a: [b]}', "prompts.grid: expected a text with one {person}, got none in '{a}'"),
        ('{grid: "a {person} {a}"}', "expected the levels of {a}, found none: add `a: [...]`"),
        (
            '{grid: "a {person} {a}", a: [b], c: [d]}',
            "prompts.c: expected a place {c} in the grid, found none",
        ),
        ('{grid: "a {person} {a}", a: [b, b]}', "prompts.a: expected each level once, got one twice"),
        ('{grid: "a {person} {a}", a: [b, 1]}', "prompts.a[1]: expected a text without braces, got 1"),
        ('{grid: "a {person} {a}", a: {b: "{c}"}}', "prompts.a.b: expected a text without braces"),
        ('{grid: "a {person} {a}", a: 3}', "prompts.a: expected a list of levels"),
        (
            "{from: gep, setting: implicit}",
            "prompts.setting: expected one of gep's (neutral, explicit), got 'implicit'",
        ),
        ("{from: gep, written: loud}", "prompts.written: expected 'paper' or 'plain', got 'loud'"),
        (
            "{from: professions, written: paper}",
            "prompts.written: expected a set of sentences (gep), got 'professions'",
        ),
        (
            "{from: x.json, written: plain}",
            "prompts.written: expected a set of sentences (gep), got 'x.json'",
        ),
        ("{from: professions, setting: a}", "prompts.setting: expected one of professions's (none), got 'a'"),
        ("{from: x.json, setting: a}", "prompts.setting: expected a set with settings, got 'x.json'"),
        (
            '[{text: "a {person}", levels: {a: b}, feminine: y}]',
            "an id and levels, got `feminine` beside them",
        ),
        ('[{text: "a {person}", levels: 3}]', "prompts[0].levels: expected the level of each axis"),
        ('[{text: "a {person}", levels: {a: 3}}]', "prompts[0].levels.a: expected a text, got 3"),
        ('[{text: "a {person} {person}"}]', "prompts[0].text: expected a text with one {person}, got 2"),
    ],
)
def test_what_is_no_grid_ends_in_one_line(tmp_path, prompts, message):
    with pytest.raises(UserError) as error:
        config(tmp_path, f"prompts: {prompts}\n")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_ids_are_short_and_of_words():
    assert grids.slug("An A/B test: " + "x" * 200) == ("an-a-b-test-" + "x" * 200)[:100]
