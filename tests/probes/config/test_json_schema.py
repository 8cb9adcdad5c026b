"""The JSON schema of triplets.yaml, by which editors check it, says what the program takes."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from probes.config.schema import build_config, schema_text
from probes.errors import UserError
from probes.fields.yaml import YamlSource
from triptych.cli.main import main

ROOT = Path(__file__).parents[3]
SCHEMA = json.loads(schema_text())


def test_the_schema_is_printed_and_the_examples_hold_to_it(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--schema"])
    assert end.value.code == 0
    assert json.loads(capsys.readouterr().out) == SCHEMA
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for path in (ROOT / "triplets.yaml", *sorted((ROOT / "docs").rglob("*.yaml"))):
        jsonschema.validate(yaml.safe_load(path.read_text("utf-8")), SCHEMA)


def taken(data):
    try:
        build_config(data, YamlSource(name="c.yaml", text="", data=data))
    except UserError:
        return False
    return True


@pytest.mark.parametrize(
    ("change", "right"),
    [
        ({}, True),
        ({"indicators": {"neutral": "person", "old": {"word": "old woman", "control": True}}}, True),
        ({"seeds": {"count": 3, "start": 5}}, True),
        ({"capture": {"sites": ["unet.*"], "definition": "self-refined"}}, True),
        ({"indicators": {"neutral": {"control": True}}}, False),
        ({"capture": {"definition": "nosuch"}}, False),
        ({"generate": {"batch_triplets": "all"}}, False),
    ],
)
def test_the_schema_and_the_program_agree(change, right):
    data = {"prompts": ["a {person} with a dog"], **change}
    assert taken(data) is right
    assert jsonschema.Draft202012Validator(SCHEMA).is_valid(data) is right
