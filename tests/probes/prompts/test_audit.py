"""What an audit asks: where its prompts stand, its attributes and its sentences."""

from pathlib import Path

from probes.config import Config, load_config
from probes.prompts import audit


def test_the_papers_training_sentences_are_96_an_attribute():
    contexts = [f"context {number}" for number in range(16)]
    with_it, without = audit.training_sentences(
        ["in boots", "with a tie"], contexts, ["A man", "A woman", "A person"]
    )
    assert [len(rows) for rows in with_it.values()] == [48, 48]
    assert len(without) == 48
    assert with_it["with a tie"][-1] == "A person with a tie context 15"


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
        prompts=grid, gep={"attributes": {"hat": "wearing a hat"}, "contexts": ["x", "y"], "subjects": ["A"]}
    )
    assert audit.attributes(said) == {"hat": "wearing a hat"}
    assert audit.sentences(said).positive == (("A wearing a hat x", "A wearing a hat y"),)
    assert audit.sentences(Config(prompts=["a {person}"])) is None


def test_the_example_beside_triplets_yaml_is_the_papers_audit():
    config = load_config(Path(__file__).parents[3] / "gep.yaml")
    assert config.prompts == Config(prompts={"from": "gep"}).prompts
    assert len(config.seeds) == 5 and len(config.prompts) * len(config.seeds) * len(config.indicators) == 5120
