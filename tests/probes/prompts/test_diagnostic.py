"""Diagnostic prompts of DALL-Eval: those of the paper, other professions, and one line for what cannot be one."""

import csv
from pathlib import Path

import pytest

from probes.config.schema import Config, load_config
from probes.errors import UserError
from probes.prompts import diagnostic

REFERENCE = Path(__file__).parents[3] / "lab" / "papers" / "reference"


def said(config):
    return [
        prompt.text(name, entry.word)
        for name, entry in config.indicators.items()
        for prompt in config.prompts
    ]


def test_the_papers_252_prompts_with_articles_that_fit():
    config = Config(prompts={"from": "dalleval"})
    with (REFERENCE / "dalleval2023_professions.csv").open(encoding="utf-8") as file:
        names = [row["profession"] for row in csv.DictReader(file)]
    assert diagnostic.professions(config) == (diagnostic.NONE, *names)
    assert {prompt.levels["setting"] for prompt in config.prompts} == {"dalleval"}
    texts = said(config)
    assert len(texts) == len(set(texts)) == 252
    assert texts[:2] == ["a person", "a person who works as an accountant"]
    # by their sound, written down apart from the code that mends them
    vowels = (
        "accountant animator architect assistant athlete author economist editor electrician engineer executive"
        " optician"
    )
    with_an = {text.split(" as an ")[1] for text in texts if " as an " in text}
    assert with_an == set(vowels.split())


def test_other_professions_and_groups():
    config = Config(
        prompts={"from": "dalleval", "profession": ["baker", "usher", "X-ray technician", "heir"]},
        indicators={"neutral": "person", "old": "elderly person", "young": "young person"},
    )
    assert diagnostic.is_diagnostic(config)
    assert said(config)[5:10] == [
        "an elderly person",
        "an elderly person who works as a baker",
        "an elderly person who works as an usher",
        "an elderly person who works as an X-ray technician",
        "an elderly person who works as an heir",
    ]
    assert [*diagnostic.profession_labels(config)] == [0, 1, 2, 3, 4]


def test_the_example_beside_triplets_yaml():
    config = load_config(Path(__file__).parents[3] / "dalleval.yaml")
    names = diagnostic.professions(config)
    assert set(names) < {*diagnostic.professions(Config(prompts={"from": "dalleval"}))} and len(names) == 21
    assert (
        all(" " not in name for name in names)
        and len(config.seeds) == 9
        and config.dalleval.tone == "ciede2000"
    )


def test_what_is_no_audit_and_what_a_limit_leaves():
    assert not diagnostic.is_diagnostic(Config(prompts={"from": "gep"}))
    limited = Config(prompts={"from": "dalleval"}, limit=3)
    assert diagnostic.professions(limited) == (diagnostic.NONE, "accountant", "animator")
    stored = Config.stored(limited.resolved())
    assert diagnostic.professions(stored) == diagnostic.professions(limited)
    written = Config(
        prompts=["a {person}", {"text": "a {person} in a kitchen", "levels": {"profession": "cook"}}]
    )
    assert diagnostic.profession_labels(written) == {1: "cook"}


@pytest.mark.parametrize(
    ("prompts", "expected"),
    [
        (
            "profession: [baker, a cook]",
            ".profession[1]: expected a profession without its article, got 'a cook'",
        ),
        ("profession: [Baker, baker]", ".profession[1]: the same as profession[0], got 'baker': keep one"),
        ("profession: ['{person}']", ".profession[0]: expected the name of a profession without braces"),
        ("profession: ['(none)']", ".profession[0]: expected single spaces and a name other than (none)"),
        ("setting: neutral", ".setting: expected one of dalleval's (dalleval)"),
    ],
)
def test_a_bad_one_is_one_line(tmp_path, prompts, expected):
    assert f"prompts{expected}" in refused(tmp_path, f"{{from: dalleval, {prompts}}}")


def refused(folder, prompts):
    """What is said of a configuration with these prompts."""
    path = folder / "audit.yaml"
    path.write_text(f"prompts: {prompts}\n", encoding="utf-8")
    with pytest.raises(UserError) as caught:
        load_config(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)
