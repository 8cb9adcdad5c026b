"""A configuration from ``triplets.yaml`` and the command line: command line over YAML over defaults.

Nothing is guessed: an unknown key, a key given twice or a value of another kind than expected is a
:class:`~probes.errors.UserError` of one line (place, rule, what was found, remedy), the first that is found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from probes.config.schema import Config
from probes.errors import UserError
from probes.fields.messages import message, naming
from probes.fields.types import shown
from probes.fields.yaml import YamlSource, read_yaml

if TYPE_CHECKING:
    from probes.prompts.captions import LoadedPrompts

Options = Mapping[tuple[str, ...], tuple[str, Any]]  # of the command line: a place, the flag and its value
# `probes.stages.external_images.configuration.configured`, which stands above this room
ReadImages = Callable[..., Mapping[str, Any]]


def load_config(path: str | Path, options: Options | None = None, **more: Any) -> Config:
    """Return the configuration of a file, which gives the run its name, with options put over it; see `load_data`."""
    source = read_source(path)
    named = {"name": Path(path).stem, **source.data}
    return load_data(replace(source, data=named), Path(path).parent, options, **more)


def read_source(path: str | Path) -> YamlSource:
    """Read ``triplets.yaml`` as plain data; a `UserError` where it holds no mapping."""
    source = read_yaml(path)
    if not isinstance(source.data, dict):
        raise UserError(
            f"{source.name}: expected `key: value` lines, got {shown(source.data)}: see triplets.yaml"
        )
    return source


def load_data(
    source: YamlSource,
    folder: Path,
    options: Options | None = None,
    loaded: list[LoadedPrompts] | None = None,
    read_images: ReadImages | None = None,
) -> Config:
    """Validate plain data, whose relative paths begin in the folder, with options put over it.

    `options` are what the command line gave: ``{("sampler", "steps"): ("--steps", 50)}``. `loaded` takes what became of
    captions, `read_images` puts what the rows of ``images:`` say in place.
    """
    context = {"folder": folder, "loaded": [] if loaded is None else loaded}
    data, options = dict(source.data), dict(options or {})
    if ("images",) in options:  # they say what other fields are
        data["images"] = options.pop(("images",))[1]
    with naming(Config, source, options):
        if data.get("images") is not None:
            if read_images is None:
                raise UserError(
                    f"{source.name}: images: expected a model that generates, got images: name a model"
                )
            data = dict(read_images(data, source, options, context, build_config))
        return build_config(data, source, options, context)


def build_config(
    data: Mapping[str, Any],
    source: YamlSource,
    options: Options | None = None,
    context: Mapping[str, Any] | None = None,
) -> Config:
    """Validate plain data with the command line's options over it ; `context` is that of `probes.prompts.source`."""
    options = dict(options or {})
    merged: dict[str, Any] = {
        key: dict(value) if isinstance(value, dict) else value for key, value in data.items()
    }
    for loc, (_, value) in options.items():
        section = merged
        for key in loc[:-1]:
            if not isinstance(section.get(key), dict):
                section[key] = {}
            section = section[key]
        section[loc[-1]] = value
    try:
        return Config.model_validate(merged, context=context)
    except ValidationError as error:
        raise UserError(message(error, Config, source, options)) from None
