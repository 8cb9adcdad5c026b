"""Every option of triplets.yaml is described in the schema, and its page and --help say the same."""

import json
from pathlib import Path
from typing import Annotated, Literal, get_origin

from pydantic import TypeAdapter

from lab.pages import configuration
from probes.config.generation import Images, SeedRange
from probes.config.observation import BLIP2_WEIGHTS
from probes.config.schema import Config, field_at, flag_help, schema_text
from probes.fields.types import Section, types_in
from probes.prompts.forms import Grid, PromptSource, PromptTable, Templates
from tests.probes.config.test_messages import models
from triptych.cli.run import parser

ROOT = Path(__file__).parents[3]
SCHEMA = json.loads(schema_text())
OPTIONS = {one.place for section in configuration.sections("", SCHEMA, SCHEMA, []) for one in section.options}


def fields(model=Config, seen=None):
    """Every field of the configuration, through unions and nested models, by its model and name."""
    seen = {} if seen is None else seen
    for name, field in model.model_fields.items():
        if (model.__name__, name) not in seen:
            seen[model.__name__, name] = field
            for inner in models(field.annotation):
                fields(inner, seen)
    return seen


FIELDS = {
    **fields(),
    **fields(PromptSource),
    **fields(PromptTable),
    **fields(Templates),
    **fields(Grid),
    **fields(SeedRange),
    **fields(Images),
}


def test_every_option_has_a_description_an_example_a_unit_and_what_null_stands_for():
    nodes = {
        (model, name): node
        for model, schema in {"Config": SCHEMA, **SCHEMA["$defs"]}.items()
        for name, node in schema.get("properties", {}).items()
    }
    assert {(model, field.alias or name) for (model, name), field in FIELDS.items()} == {*nodes}
    for place, field in FIELDS.items():
        extra = field.json_schema_extra or {}
        assert (field.description or "").strip().endswith("."), place
        assert "null" in extra or field.is_required() or field.default is not None, place
        chosen = field.annotation is bool or get_origin(field.annotation) is Literal
        assert field.examples or chosen or place == ("Images", "seed"), place
        kinds = types_in(field.annotation)
        numeric = {int, float} & {*kinds} and not any(issubclass(kind, Section) for kind in kinds)
        assert "unit" in extra or not numeric, place


def test_every_example_is_taken_and_is_not_the_default():
    for place, field in FIELDS.items():
        if not field.examples:
            continue
        (example,) = field.examples
        if place in {
            ("Config", "prompts"),
            ("Config", "indicators"),
        }:  # which are taken with other fields alone
            Config(**{"prompts": ["a {person}"], place[1]: example})
        else:
            kind = Annotated[field.annotation, *field.metadata, None]
            TypeAdapter(kind).validate_python(example, strict=True)
        assert example != field.default or example in ("neutral", "clip", BLIP2_WEIGHTS), place


def test_the_page_is_the_one_printed():
    text = (ROOT / "docs" / "reference" / "configuration.md").read_text("utf-8")
    assert text == configuration.page(), (
        "run: python -m lab.pages.configuration > docs/reference/configuration.md"
    )
    assert all(f"\n- `{place}` (" in text for place in OPTIONS) and len(OPTIONS) >= len(FIELDS)


def test_a_flag_says_what_the_schema_says_of_its_field():
    shown = {action.dest: action.help for action in parser()._actions}
    assert shown["steps"] == flag_help("sampler.steps")
    assert field_at("sampler.steps").description.startswith("Denoising steps of an image. ")
    assert shown["limit"] == "Only the first so many prompts (prompts; default: all; for example 4)"
    assert "default: no cluster" in shown["cluster"]  # though its address has one
