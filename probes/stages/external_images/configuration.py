"""Configuration of external images (``images: {from: ...}``): prompts, seeds and noise, read from the rows.

As with captions the resolved configuration holds the prompts themselves: whatever alters the rows alters those, and a
run is known by them. What a model would have to be opened for cannot be asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from probes.config.generation import UNNAMED, Images
from probes.errors import UserError
from probes.fields.types import PERSON, shown
from probes.prompts.prompt import asks_for_skills
from probes.stages.external_images.table import Log, find_source, has_indicators, read_rows
from probes.stages.external_images.triplets import Triplets, group_triplets, match_audit

if TYPE_CHECKING:
    from probes.config.schema import Config, Options
    from probes.fields.yaml import YamlSource

STANDS_ALONE = "an image"  # in the place of prompts that are read from rows without an indicator
PRIMARY = "ssim"  # of what can be measured, the first
GENERATION = ("prompts", "seeds", "capture")  # sections on what is generated, or recorded meanwhile
# sections of which only these fields are not about generation
OTHER_FIELDS = {"sampler": ("noise",), "generate": ("part_triplets", "device", "workers")}


def complete_configuration(
    data: Mapping[str, Any],
    source: YamlSource,
    options: Options,
    context: Mapping[str, Any],
    build: Callable[..., Config],
) -> dict[str, Any]:
    """Return the data of a configuration of external images, with prompts, seeds and noise read from their rows.

    `build` makes a `Config` of data, source, options and context, which has the ``folder`` of relative paths.
    """
    given = data.get("prompts") is not None  # of an audit, which says what its images were generated from
    _require_no_generation_fields(data, options, source.name, audit=given)
    image_options = {path: value for path, value in options.items() if path[0] == "images"}
    minimal = {"images": data["images"], "prompts": [PERSON], "seeds": [0]}
    images = build(minimal, source, image_options, context).images
    path = find_source(images, context["folder"])
    compares = data["indicators"] != {} if "indicators" in data else has_indicators(images, path)
    prompts = data["prompts"] if given else [PERSON if compares else STANDS_ALONE]
    sampler = data.get("sampler") or {}
    if isinstance(sampler, Mapping):
        sampler = {"noise": "shared", **sampler}
    rest = build(
        {"model": UNNAMED, **data, "prompts": prompts, "seeds": [0], "sampler": sampler},
        source,
        options,
        context,
    )
    if given and not all(prompt.levels for prompt in rest.prompts):
        _require_no_generation_fields(data, options, source.name)
    if images.prompt_id not in (None, Images.model_fields["prompt_id"].default) and not asks_for_skills(rest):
        raise UserError(
            f"{source.name}: images.prompt_id: expected none but beside prompts that ask for skills, got"
            f" {shown(images.prompt_id)}: take it out"
        )
    if rest.sampler.noise == "independent":
        raise UserError(
            "sampler.noise: expected own or shared beside `images`, got independent: write "
            "`images: {seed: null}` where no two images start from the same noise"
        )
    read, rows = read_triplets(rest, path)
    absent = [name for name in ("seed", "triplet", "prompt_id") if rows[name].iloc[0] is None]
    images = images.model_copy(update={"from_": str(path), **dict.fromkeys(absent)})
    written, noise = rest.resolved(), {"noise": "shared" if read.shared else "own"}
    return {
        **written,
        "images": images.model_dump(mode="json"),
        "prompts": read.prompts,
        "seeds": read.seeds,
        "sampler": {**written["sampler"], **noise, **(data.get("sampler") or {})},
        "capture": {"sites": "default", "words": False},
        "measure": {**written["measure"], "primary": PRIMARY, **(data.get("measure") or {})},
    }


def _require_no_generation_fields(
    data: Mapping[str, Any], options: Options, file: str, *, audit: bool = False
) -> None:
    """Raise UserError for fields and options on the generation of images, in an `audit` other than prompts."""
    given = {(name,): f"{file}: {name}" for name in data}
    for section in OTHER_FIELDS:
        if isinstance(fields := data.get(section), Mapping):
            given |= {(section, name): f"{file}: {section}.{name}" for name in fields}
    given |= {place: flag for place, (flag, _) in options.items()}
    for (section, *names), location in given.items():
        generates = section in GENERATION and not (audit and section == "prompts")
        if generates or (names and section in OTHER_FIELDS and names[0] not in OTHER_FIELDS[section]):
            raise UserError(
                f"{location}: expected none beside `images`, whose rows say what was drawn, got one: take it out"
            )


def read_triplets(config: Config, path: Path, log: Log = lambda line: None) -> tuple[Triplets, pd.DataFrame]:
    """Return the triplets of the external images at a path (table or folder), and a table with a row per image.

    Rows of an audit are matched to its prompts, which have levels, as may prompts that are read from rows. `log` takes
    a line on what was not read, or read as something else.
    """
    images, words = config.images, {name: entry.forms for name, entry in config.indicators.items()}
    assert images is not None
    by_id, own_noise = asks_for_skills(config), config.sampler.noise == "own"
    alone, audit = len(words) == 1 and not by_id, all(prompt.levels for prompt in config.prompts)
    if alone or not audit:
        rows = read_rows(images, path, by_prompt=alone, levels=images.levels if alone else (), log=log)
        read = group_triplets(
            rows, words, config.reference, alone=alone, any_words=images.any_words, own_noise=own_noise
        )
        if not audit or read.prompts == [*config.prompts]:
            return read, rows
    rows = read_rows(images, path, by_prompt=True, by_id=by_id, log=log)
    inside = match_audit(rows, config.prompts, {name: word for name, (word, _) in words.items()})
    read = group_triplets(inside, words, config.reference, any_words=True, own_noise=own_noise, repeated=True)
    # numbered as the prompts are, of which those without images stay
    images = read.images.assign(number=read.images["triplet"].astype(int))
    return replace(read, prompts=[*config.prompts], images=images), rows
