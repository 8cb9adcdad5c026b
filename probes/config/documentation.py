"""The line of ``--help`` on a flag, from the field of the configuration that it overrides."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic.fields import FieldInfo

from probes.config.schema import Config
from probes.fields.types import section_in

_SENTENCE = re.compile(r"(?<=\.)\s+(?=[A-Z`])")


def field_at(place: str) -> FieldInfo:
    """Return the field of the configuration at a place such as ``sampler.steps``."""
    section, _, name = place.rpartition(".")
    return (section_in(field_at(section).annotation) if section else Config).model_fields[name]


def flag_help(place: str) -> str:
    """Return a line for ``--help`` on the flag that overrides a field: first sentence, unit, default and example.

    >>> flag_help("sampler.steps")
    'Denoising steps of an image (steps; default: 30; for example 50)'
    """
    field = field_at(place)
    summary = _SENTENCE.split(" ".join((field.description or place).split()))[0].removesuffix(".")
    section = field_at(place.rpartition(".")[0]) if "." in place else field
    without = section if section.get_default() is None else field
    default = without.json_schema_extra["null"] if without.default is None else flow_text(without.default)
    facts = [(field.json_schema_extra or {}).get("unit", ""), f"default: {default}"]
    for example in field.examples or ():
        facts.append(
            f"for example {flow_text(example)}".replace("[", "")
            .replace("]", "")
            .replace(",", "")
            .replace('"', "")
        )
    return f"{summary} ({'; '.join(fact for fact in facts if fact)})"


def flow_text(value: Any) -> str:
    """Return a value as a line of YAML.

    >>> flow_text({"count": 3}), flow_text(["a {person}", 0.5]), flow_text(None), flow_text(True)
    ('{count: 3}', '["a {person}", 0.5]', 'null', 'true')
    """
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {flow_text(entry)}' for key, entry in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(flow_text, value))}]"
    if isinstance(value, str):
        plain = re.fullmatch(r"[A-Za-z_/][\w./+*@ -]*(:\w[\w./+*@ -]*)*", value) and value.strip() == value
        return value if plain and value not in ("null", "true", "false", "yes", "no") else json.dumps(value)
    return json.dumps(value)
