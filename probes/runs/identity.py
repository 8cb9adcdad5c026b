"""Fields of a configuration by what they alter: the identity of parts, and what a later stage may change.

It is derived from marks in the schema (`probes.config.schema`): a field alters the images and what is captured with
them unless it is marked otherwise, so a field that is new belongs to the identity until somebody decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from hooks.attention import definitions
from probes.config.schema import Config

# no kind of model takes another's, so each is the one that "default" stands for
_DEFAULT_DEFINITIONS = [definitions.default_name(kinds) for kinds in (("probability",), ("mass",))]


@cache
def stages() -> dict[str, str]:
    """Return the stage that each field alters, by its address, from the marks of the schema."""
    marks = {}
    for name, field in Config.model_fields.items():
        marks[name] = _mark(field, "generate")
        for kind in (field.annotation, *get_args(field.annotation)):  # a section, or one that may be null
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                marks |= {
                    f"{name}.{key}": _mark(entry, marks[name]) for key, entry in kind.model_fields.items()
                }
    return marks


def _mark(field: FieldInfo, otherwise: str) -> str:
    return (field.json_schema_extra or {}).get("alters", otherwise)


def _fields(config: Mapping[str, Any], *altered: str) -> dict[str, Any]:
    """Fields by their addresses that alter some stages; words of indicators apart from what they are controls of."""
    fields: dict[str, Any] = {}
    for key, value in config.items():
        if key == "indicators":
            fields[key] = [[name, entry["word"]] for name, entry in value.items()]
        elif isinstance(value, Mapping):
            fields |= {f"{key}.{name}": entry for name, entry in value.items()}
        else:
            fields[key] = value
    return {name: value for name, value in fields.items() if stages().get(name, "generate") in altered}


def generated_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """Every field of a resolved configuration that alters what the generate stage stores, by its address.

    The reference alters the noise of free captions, and nothing else; what a word is a control of alters nothing.
    """
    fields = _fields(config, "generate", "part")
    if "generate.device" in fields:
        fields["generate.device"] = fields["generate.device"].split(":")[0]  # any GPU of a kind
    if not fields.get("capture.keep"):
        fields |= {"capture.keep_places": None, "capture.keep_dtype": None}
    if fields.get("capture.definition") in _DEFAULT_DEFINITIONS:
        fields["capture.definition"] = "default"
    limit, prompts = fields.get("limit"), fields.get("prompts", ())
    fields["limit"] = limit if limit and limit < len(prompts) else None  # a limit beyond the end is none
    # as a whole: without one, and with one, are two models, or two audits
    fields = {name: value for name, value in fields.items() if not name.startswith(("edit.", "stop."))}
    fields |= {name: config.get(name) for name in ("edit", "stop")}
    captions = any(isinstance(prompt, Mapping) for prompt in prompts)
    if not (captions and fields.get("sampler.noise") in ("own", "independent")):
        fields.pop("reference", None)
    return fields


def part_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """Those of `generated_fields` that all parts of a run have in common and that are not left empty."""
    return {
        name: value
        for name, value in generated_fields(config).items()
        if stages().get(name) != "part" and value not in (None, [])
    }


def observed_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """Every field that alters what the observe stage sees, by its address."""
    return _fields(config, "observe")


def traced_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """Every field that alters what the trace stage generates, by its address; of the words, those that it patches."""
    controls = [name for name, entry in config.get("indicators", {}).items() if entry.get("control")]
    return {
        "contrasts[0]": next(iter(config.get("contrasts") or []), None),
        "reference": config.get("reference"),
        "controls": controls,
        **_fields(config, "trace"),
    }


def measured_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """Every field that alters the tables of given images, by its address."""
    controls = {name: entry.get("control") or False for name, entry in config.get("indicators", {}).items()}
    return {
        "reference": config.get("reference"),
        **{f"indicators.{name}.control": control for name, control in controls.items()},
        **_fields(config, "measure"),
    }


def later_fields(section: str, before: Any, after: Any) -> Any:
    """Return a section of the configuration as it was, but for the fields that alter a later stage or nothing."""
    if not isinstance(before, Mapping):
        return before
    later = {key for key in after if stages().get(f"{section}.{key}", "generate") in ("nothing", "measure")}
    return {**before, **{key: value for key, value in after.items() if key in later}}


def differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> str | None:
    """The first field that differs, in the order of `after`; None where all are the same."""
    return next((name for name in {**after, **before} if before.get(name) != after.get(name)), None)
