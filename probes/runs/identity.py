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
from probes.fields.types import Alters
from probes.runs.parts import digest

# what stands for the default in the identity of parts: former versions knew that of U-Nets alone
_DEFAULTS = {"trace.sites": ["unet.*.cross"], "capture.definition": definitions.DAAM.name}
_KEPT_WHOLE = {"capture.keep_places": "all", "capture.keep_dtype": "float32"}
# no kind of model takes another's, so each is one with what is named
_TAKEN_BY_DEFAULT = ("default", *map(definitions.default_name, (("probability",), ("mass",))))


@cache
def stages() -> dict[str, str]:
    """Return the stage that each field alters, by its address, from the marks `Alters` of the schema."""
    marks = {}
    for name, field in Config.model_fields.items():
        marks[name] = _mark(field, "generate")
        for kind in (field.annotation, *get_args(field.annotation)):  # a section, or one that may be null
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                marks |= {
                    f"{name}.{key}": _mark(entry, marks[name]) for key, entry in kind.model_fields.items()
                }
    return marks


def _stage(name: str) -> str:
    """The stage that a field alters; one of a former version alters what its section does."""
    return stages().get(name) or stages().get(name.partition(".")[0], "generate")


def _mark(field: FieldInfo, otherwise: str) -> str:
    return next((mark.stage for mark in field.metadata if isinstance(mark, Alters)), otherwise)


def _fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """Every field by its address, words of indicators apart from what they are controls of."""
    fields: dict[str, Any] = {}
    for key, value in config.items():
        if key == "indicators":
            fields[key] = [[name, entry["word"]] for name, entry in value.items()]
        elif isinstance(value, Mapping):
            fields |= {f"{key}.{name}": entry for name, entry in value.items()}
        else:
            fields[key] = value
    return fields


def drawn_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """Every field of a resolved configuration that alters what the generate stage stores, by its address.

    The reference alters the noise of free captions, and nothing else; what a word is a control of alters nothing.
    """
    fields = {name: value for name, value in _fields(config).items() if _stage(name) in ("generate", "part")}
    if "generate.device" in fields:
        fields["generate.device"] = fields["generate.device"].split(":")[0]  # any GPU of a kind
    fields["capture.pool"] = fields.get("capture.pool") or []  # of versions that did not know it: nothing
    # of what is kept: nothing where that is nothing, or all as of old
    for name, former in _KEPT_WHOLE.items():
        value = fields.get(name)
        fields[name] = value if fields.get("capture.keep") and value != former else None
    fields["sampler.true_cfg_scale"] = fields.get("sampler.true_cfg_scale")
    if fields.get("capture.definition") in _TAKEN_BY_DEFAULT:
        fields["capture.definition"] = _DEFAULTS["capture.definition"]
    limit, prompts = fields.get("limit"), fields.get("prompts", ())
    fields["limit"] = limit if limit and limit < len(prompts) else None  # a limit beyond the end is none
    fields = {name: value for name, value in fields.items() if not name.startswith(("edit.", "stop."))}
    # as a whole: without one, and with one, are two models, or two audits
    fields |= {name: config.get(name) for name in ("edit", "stop")}
    captions = any(isinstance(prompt, Mapping) for prompt in prompts)
    if not (captions and fields.get("sampler.noise") in ("own", "independent")):
        fields.pop("reference", None)
    return fields


def part_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """Those of `drawn_fields` that all parts of a run have in common."""
    fields = {name: value for name, value in drawn_fields(config).items() if _stage(name) != "part"}
    # parts of earlier versions knew none of them
    later = ("edit", "capture.pool", "sampler.true_cfg_scale", *_KEPT_WHOLE)
    return {name: value for name, value in fields.items() if value or name not in later}


def observed_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """Every field that alters what the observe stage sees, by its address."""
    return {name: value for name, value in _fields(config).items() if _stage(name) == "observe"}


def traced_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """Every field that alters what the trace stage draws, by its address; of the words, those that it patches."""
    marked = {name: value for name, value in _fields(config).items() if _stage(name) == "trace"}
    if marked.get("trace.sites") == "default":
        marked["trace.sites"] = _DEFAULTS["trace.sites"]
    controls = [name for name, entry in config.get("indicators", {}).items() if entry.get("control")]
    return {
        "contrasts[0]": next(iter(config.get("contrasts") or []), None),
        "reference": config.get("reference"),
        "controls": controls,
        **marked,
    }


def measured_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """Every field that alters the tables of given images, by its address."""
    controls = {name: entry.get("control") or False for name, entry in config.get("indicators", {}).items()}
    marked = {name: value for name, value in _fields(config).items() if _stage(name) == "measure"}
    return {
        "observe.objects": True,  # of runs that do not name it
        "contrasts": None,
        "reference": config.get("reference"),
        **{f"indicators.{name}.control": control for name, control in controls.items()},
        **marked,
    }


def as_written(field: str, value: Any) -> Any:
    """Return a field of an identity as a configuration says it, of any architecture."""
    return "default" if value is not None and value == _DEFAULTS.get(field) else value


def later_fields(section: str, before: Any, after: Any) -> Any:
    """Return a section of the configuration as it was, but for the fields that alter a later stage or nothing."""
    if not isinstance(before, Mapping):
        return before
    free = {
        name: value for name, value in after.items() if _stage(f"{section}.{name}") in ("nothing", "measure")
    }
    return {**before, **free}


def differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> str | None:
    """The first field that differs, in the order of `after`; None where all are the same."""
    return next((name for name in {**after, **before} if before.get(name) != after.get(name)), None)


def short(data: bytes | str) -> str:
    """The beginning of a digest, enough to tell two files apart in an error."""
    return digest(data)[:16]
