"""``run.json``, the record of a run, and the fields of its configuration by what they alter.

The fields are derived from marks in the schema (`probes.config.schema`): a field alters the images and what is captured
with them unless it is marked otherwise, so a field that is new belongs to the identity until somebody decides.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from platform import libc_ver, machine, python_version, system
from typing import Any, get_args

from pydantic import BaseModel

from hooks.attention import definitions
from probes.config.schema import Config
from probes.errors import UserError, parse_json
from probes.runs.parts import FORMAT, digest

STATUSES = ("planned", "generated", "observed", "measured", "complete")
# entries that several rooms read
KINDS = "kinds"  # how many parts of each kind there are to be
REGISTERED = "stopping"  # the question that ends a run
_CHECKSUM = re.compile(r"sha256:[0-9a-f]{64}")
_LIBRARIES = (
    *("triptych", "torch", "diffusers", "transformers", "tokenizers", "safetensors", "numpy", "scipy"),
    *("scikit-image", "pandas", "pyarrow", "pillow", "pydantic", "matplotlib"),
)
_WIDTH = 100  # characters: a longer entry is written over several lines
# no kind of model takes another's, so each is the one that "default" stands for
_DEFAULT_DEFINITIONS = [definitions.default_name(kinds) for kinds in (("probability",), ("mass",))]


def read_record(file: Path) -> dict[str, Any]:
    """Return the content of a ``run.json``; UserError if it is absent, damaged or of another format.

    A record without a checksum is accepted as it is: a run may be put together by another program.
    """
    try:
        meta = parse_json(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(
            f"{file.parent}: expected a run directory, found no run.json: check the path"
        ) from None
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror}): check its permissions") from None
    except (ValueError, RecursionError):
        raise record_error(file, "it is no JSON") from None
    for field, kind in (("format", int), ("status", str)):
        if not isinstance(meta, dict) or not isinstance(meta.get(field), kind):
            raise record_error(file, f"it has no `{field}`")
    sums = {name for name, value in meta.items() if _CHECKSUM.fullmatch(str(value))}
    if sums - {"checksum"} or ("checksum" in meta and meta.pop("checksum") != _checksum(meta)):
        raise UserError(
            f"{file}: expected the record of a run as it was written, got a damaged file (its checksum differs):"
            " restore it from a copy or choose another --out; if you edited it, take its line `checksum` out"
        )
    number, status = meta["format"], meta["status"]
    if number > FORMAT or status not in STATUSES:
        raise UserError(f"{file}: expected format {FORMAT}, got {number} ({status}): use a newer triptych")
    config = meta.get("config")
    if not isinstance(config, dict) or not isinstance(config.get("resolved"), dict):
        raise record_error(file, "it has no `config`")
    if number < FORMAT:
        raise UserError(
            f"{file}: expected a run of format {FORMAT}, got one of format {number}, which an earlier triptych wrote:"
            " run its triplets.yaml again with another --out, or read it with the version that wrote it"
        )
    return meta


def record_error(file: Path, reason: str) -> UserError:
    """Return the error for a ``run.json`` that is not the record of a run, with the reason."""
    return UserError(
        f"{file}: expected the record of a run, got a damaged file or another program's ({reason}):"
        " restore it from a copy, or choose another --out"
    )


def versions() -> dict[str, str]:
    """Return the versions of Python, the system and the main libraries by name, without importing them."""
    # without the version of its kernel, which says of a machine what no result hangs on
    platform = " ".join(name for name in (system(), machine(), *libc_ver()) if name)
    installed = {"python": python_version(), "system": platform}
    for name in _LIBRARIES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            installed[name] = metadata.version(name)
    return installed


def record_bytes(meta: Mapping[str, Any]) -> bytes:
    """Return the bytes of a ``run.json`` with the fields `meta` and a checksum of them."""
    return f"{_wrapped_json({'checksum': _checksum(meta), **meta})}\n".encode()


def _wrapped_json(value: Any, depth: int = 2, indent: str = "") -> str:
    """Return a value as JSON text; mappings longer than a line have an entry per line, down to `depth` levels."""
    text = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, Mapping) or not depth or len(indent + text) <= _WIDTH:
        return text
    inner = f"{indent}  "
    entries = [
        f"{inner}{json.dumps(key, ensure_ascii=False)}: "
        + _wrapped_json(entry, depth if key == "config" else depth - 1, inner)
        for key, entry in value.items()
    ]
    return "{\n" + ",\n".join(entries) + f"\n{indent}}}"


def _checksum(meta: Mapping[str, Any]) -> str:
    """Return the checksum that ``run.json`` has of its other fields."""
    return f"sha256:{digest(json.dumps(meta, sort_keys=True))}"


@cache
def altered_stages() -> dict[str, str]:
    """Return the stage whose results each configuration field (dotted) alters, or "part" (the cut) or "nothing"."""
    marks = {}
    for name, field in Config.model_fields.items():
        marks[name] = (field.json_schema_extra or {}).get("alters", "generate")
        for kind in (field.annotation, *get_args(field.annotation)):  # a section, or one that may be null
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                marks |= {
                    f"{name}.{key}": (entry.json_schema_extra or {}).get("alters", marks[name])
                    for key, entry in kind.model_fields.items()
                }
    return marks


def fields_altering(config: Mapping[str, Any], *stages: str) -> dict[str, Any]:
    """Return the fields of a resolved configuration that alter the results of `stages`, by dotted name."""
    fields: dict[str, Any] = {}
    for key, value in config.items():
        if key == "indicators":
            fields[key] = [[name, entry["word"]] for name, entry in value.items()]
        # with an edit and without one, as with a question that ends the run, are two audits
        elif isinstance(value, Mapping) and key not in ("edit", "stop"):
            fields |= {f"{key}.{name}": entry for name, entry in value.items()}
        else:
            fields[key] = value
    return {name: value for name, value in fields.items() if altered_stages().get(name, "generate") in stages}


def generated_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a resolved configuration that alter what the generate stage stores, by dotted name.

    The reference alters the noise of free captions, and nothing else; what a word is a control of alters nothing.
    """
    fields = fields_altering(config, "generate", "part")
    if "generate.device" in fields:
        fields["generate.device"] = fields["generate.device"].split(":")[0]  # any GPU of a kind
    if not fields.get("capture.keep"):
        fields |= {"capture.keep_places": None, "capture.keep_dtype": None}
    if fields.get("capture.definition") in _DEFAULT_DEFINITIONS:
        fields["capture.definition"] = "default"
    if not (config.get("generate") or {}).get("from_images"):
        fields.pop("generate.strength", None)
    limit, prompts = fields.get("limit"), fields.get("prompts", ())
    fields["limit"] = limit if limit and limit < len(prompts) else None  # a limit beyond the end is none
    captions = any(isinstance(prompt, Mapping) for prompt in prompts)
    if not (captions and fields.get("sampler.noise") in ("own", "independent")):
        fields.pop("reference", None)
    return fields


def part_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the non-empty fields of `generated_fields` that alter the content of parts, not the cut into parts."""
    return {
        name: value
        for name, value in generated_fields(config).items()
        if altered_stages().get(name) != "part" and value not in (None, [])
    }


def traced_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that alter what the trace stage generates, by dotted name; of indicators only controls."""
    controls = [name for name, entry in config.get("indicators", {}).items() if entry.get("control")]
    return {
        "contrasts[0]": next(iter(config.get("contrasts") or []), None),
        "reference": config.get("reference"),
        "controls": controls,
        **fields_altering(config, "trace"),
    }


def measured_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that alter the result tables of unchanged images, by dotted name."""
    controls = {name: entry.get("control") or False for name, entry in config.get("indicators", {}).items()}
    return {
        "reference": config.get("reference"),
        **{f"indicators.{name}.control": control for name, control in controls.items()},
        **fields_altering(config, "measure"),
    }


def merge_later_fields(section: str, before: Any, after: Any) -> Any:
    """Return the `section` as it was `before`, with values of `after` that alter only result tables, or nothing."""
    if not (isinstance(before, Mapping) and isinstance(after, Mapping)):
        return before
    later = [
        key for key in after if altered_stages().get(f"{section}.{key}", "generate") in ("nothing", "measure")
    ]
    return {**before, **{key: after[key] for key in later}}


def first_difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> str | None:
    """Return the first key whose values differ, in the order of `after`; None if all are equal."""
    return next((name for name in {**after, **before} if before.get(name) != after.get(name)), None)
