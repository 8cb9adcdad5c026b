"""Sections of a configuration as a run's record holds them: plain data that was checked when it was written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, get_args, get_origin

from probes.config.sections import Indicator
from probes.fields.types import Section, shown

_Model = TypeVar("_Model", bound=Section)


def section(name: str, values: Any, kind: type[_Model]) -> _Model:
    """Return a section, or all of the configuration, made of plain data without checks."""
    fields = present(name, values, kind)
    for field, value in fields.items():
        annotation = kind.model_fields[field].annotation
        # also of `Trace | None` and `dict[str, GepVariant]`
        for inner in (annotation, *get_args(annotation)):
            if not (isinstance(inner, type) and issubclass(inner, Section)):
                continue
            if get_origin(annotation) is dict:
                fields[field] = {key: section(f"{field}.{key}", one, inner) for key, one in value.items()}
            else:
                fields[field] = section(field, value, inner)
    return kind.model_construct(**fields)


def indicator(name: str, value: Any) -> Indicator:
    """Return an indicator as a record holds it: a word, or fields; a word that is missing is the name."""
    fields = (
        {"word": value} if isinstance(value, str | None) else present(f"indicators.{name}", value, Indicator)
    )
    return Indicator.model_construct(
        word=fields.get("word") or name, control=fields.get("control") or False, plural=fields.get("plural")
    )


def present(name: str, values: Any, kind: type[Section]) -> dict[str, Any]:
    """Return the plain data of a section, without what is null and what the section does not know."""
    if not isinstance(values, Mapping):
        raise ValueError(f"{name}: expected fields, got {shown(values)}")
    return {key: values[key] for key in kind.model_fields if values.get(key) is not None}
