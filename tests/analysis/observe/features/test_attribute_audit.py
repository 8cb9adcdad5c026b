"""What an audit asks: where its prompts stand, its attributes and its sentences."""

from pathlib import Path

import pytest

from analysis.observe.features import attribute_audit as audit
from probes.config.schema import Config, load_config
from probes.errors import UserError


def test_the_set_of_gep_is_an_audit_with_96_sentences_an_attribute():
    config = Config(prompts={"from": "gep"})
    places = audit.places(config)
    assert [place.setting for place in places] == ["neutral"] * 16 + ["explicit"] * 240
    assert len(audit.attributes(config)) == 15
    asked = audit.sentences(config)
    assert {len(rows) for rows in asked.positive} == {48} and len(asked.negative) == 48
    assert asked.names[5:8] == ("a dress", "a skirt", "a suit")
    assert len(asked.all) == 15 * 48 + 48 + 15 + 1


def test_attributes_are_those_that_are_said_or_stand_in_the_prompts():
    grid = {
        "grid": "a {person} {attribute} {context}",
        "attribute": ["hat", "with a crown"],
        "context": ["at sea"],
    }
    config = Config(prompts=grid)
    assert audit.attributes(config) == {"hat": "in a hat", "with a crown": "with a crown"}
    assert [place.named for place in audit.places(config)] == ["hat", "with a crown"]
    said = Config(
        prompts=grid,
        gep={"attributes": {"hat": "wearing a hat"}, "contexts": list("uvwxyz"), "subjects": ["A"]},
    )
    assert audit.attributes(said) == {"hat": "wearing a hat"}
    assert audit.sentences(said).positive == (tuple(f"A wearing a hat {one}" for one in "uvwxyz"),)
    assert audit.sentences(Config(prompts=["a {person}"])) is None


def test_the_example_beside_triplets_yaml_is_the_papers_audit():
    config = load_config(Path(__file__).parents[4] / "gep.yaml")
    assert config.prompts == Config(prompts={"from": "gep"}).prompts
    assert len(config.seeds) == 5 and len(config.prompts) * len(config.seeds) * len(config.indicators) == 5120


def test_variants_ask_for_sentences_of_their_own():
    grid = {
        "grid": "a {person} {attribute} {context}",
        "attribute": {"tie": "with a tie"},
        "context": ["at sea", "at work"],
    }
    variants = {
        "empty": {"reference": ""},
        "lawyers": {
            "subjects": ["A lawyer", "A judge"],
            "contexts": list("xyz"),
            "template": "Photo: {subject} {attribute}, {context}.",
        },
    }
    config = Config(prompts=grid, gep={"variants": variants})
    base, empty, lawyers = (audit.sentences(config, name) for name in ("", "empty", "lawyers"))
    assert (base.reference, empty.reference) == ("an object", "") and empty.positive == base.positive
    assert (
        lawyers.positive[0][0] == "Photo: A lawyer with a tie, x."
        and lawyers.negative[-1] == "Photo: A judge, z."
    )
    texts = audit.texts(config)
    assert len(texts) == len(set(texts)) and {*base.all, "", *lawyers.all} < set(texts)
    assert "a woman with a tie at sea" in texts  # what was asked for is embedded as well
    assert audit.options_of(config, "lawyers").ensemble == 10


def test_occupations_are_no_contexts_of_sentences():
    glasses = {"attributes": {"glasses": "wearing glasses"}, "subjects": ["A lawyer", "A female lawyer"]}
    config = Config(prompts={"from": "occupations"}, gep=glasses)
    assert {"lawyer", "judge"} < {place.context for place in audit.places(config)}
    asked = audit.sentences(config)
    assert asked.names == ("glasses",) and len(asked.negative) == 2 * 16
    assert asked.positive[0][0] == "A lawyer wearing glasses sitting at a table"


@pytest.mark.parametrize(
    ("gep", "message"),
    [
        (
            {"subjects": ["A man"]},
            "gep: expected at least 6 different sentences .* got 2: name more contexts",
        ),
        (
            {"variants": {"few": {"contexts": ["x"]}}},
            "gep.variants.few: expected at least 6 different sentences",
        ),
    ],
)
def test_too_few_sentences_to_train_by_are_said(gep, message):
    grid = {
        "grid": "a {person} {attribute} {context}",
        "attribute": ["hat"],
        "context": ["at sea", "at work"],
    }
    with pytest.raises(UserError, match=message):
        audit.texts(Config(prompts=grid, gep=gep))
