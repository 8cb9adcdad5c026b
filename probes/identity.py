"""Which field of a configuration alters what: the identity of parts, and what a later stage may change.

Nothing is listed twice: every field alters the images and what is captured with them, but for those named here, so a
field that is new to the schema belongs to the identity unless somebody decides otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from probes.parts import digest

# the model is known by its content, not by its name
_DRAWS_NOTHING = ("name", "out", "model", "contrasts", "observe", "measure", "report")
_ALTERS_NO_BYTE = ("generate.workers",)
_OF_A_PART = ("prompts", "limit", "seeds")  # a part names those that are its own
_SEES_NOTHING = ("observe.objects",)


def drawn_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """Every field of a resolved configuration that alters what the generate stage stores, by its address.

    The reference alters the noise of free captions, and nothing else; what a word is a control of alters nothing.

    Examples
    --------
    >>> words = {
    ...     "neutral": {"word": "person", "control": False},
    ...     "feminine": {"word": "woman", "control": False},
    ... }
    >>> config = {
    ...     "name": "x",
    ...     "indicators": words,
    ...     "reference": "neutral",
    ...     "prompts": ["a {person}"],
    ...     "seeds": [0],
    ... }
    >>> drawn_fields({**config, "sampler": {"steps": 4, "noise": "own"}})["sampler.steps"]
    4
    """
    fields: dict[str, Any] = {}
    for key, value in config.items():
        if key in _DRAWS_NOTHING:
            continue
        if key == "indicators":
            fields[key] = [[name, entry["word"]] for name, entry in value.items()]
        elif isinstance(value, Mapping):
            fields |= {f"{key}.{name}": entry for name, entry in value.items()}
        else:
            fields[key] = value
    for name in _ALTERS_NO_BYTE:
        fields.pop(name, None)
    if "generate.device" in fields:
        fields["generate.device"] = fields["generate.device"].split(":")[0]  # any GPU of a kind
    limit, prompts = fields.get("limit"), fields.get("prompts", ())
    fields["limit"] = limit if limit and limit < len(prompts) else None  # a limit beyond the end is none
    captions = any(isinstance(prompt, Mapping) for prompt in prompts)
    if not (captions and fields.get("sampler.noise") == "own"):
        fields.pop("reference", None)
    return fields


def part_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """Those of `drawn_fields` that all parts of a run have in common."""
    return {name: value for name, value in drawn_fields(config).items() if name not in _OF_A_PART}


def observed_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """Every field that alters what the observe stage sees, by its address."""
    fields = {f"observe.{name}": value for name, value in config.get("observe", {}).items()}
    return {name: value for name, value in fields.items() if name not in _SEES_NOTHING}


def measured_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """Every field that alters the tables of given images, by its address."""
    controls = {name: entry.get("control") or False for name, entry in config.get("indicators", {}).items()}
    return {
        "contrasts": config.get("contrasts"),
        "reference": config.get("reference"),
        **{f"indicators.{name}.control": control for name, control in controls.items()},
        "observe.objects": config.get("observe", {}).get("objects", True),
        **{f"measure.{name}": value for name, value in config.get("measure", {}).items()},
    }


def differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> str | None:
    """The first field that differs, in the order of `after`; None where all are the same.

    >>> differing({"a": 1, "b": 2}, {"a": 1, "c": 3})
    'c'
    """
    return next((name for name in {**after, **before} if before.get(name) != after.get(name)), None)


def short(data: bytes | str) -> str:
    """The beginning of a digest, enough to tell two files apart in an error."""
    return digest(data)[:16]
