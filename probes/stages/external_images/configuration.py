"""Configuration of external images (``images: {from: ...}``): prompts, seeds and noise, read from the rows.

As with captions the resolved configuration holds the prompts themselves: whatever alters the rows alters those, and a
run is known by them. What a model would have to be opened for cannot be asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probes.config import presets
from probes.config.image_options import UNNAMED, Images
from probes.errors import UserError
from probes.fields.types import PERSON, shown
from probes.prompts.prompt import Prompt
from probes.stages.external_images.audits import audited, has_ids, is_audit
from probes.stages.external_images.table import ImageRow, Say, find, has_indicators, read_rows
from probes.stages.external_images.triplets import Triplets, triplets

if TYPE_CHECKING:
    from probes.config.schema import Config
    from probes.fields.yaml import YamlSource

Options = Mapping[tuple[str, ...], tuple[str, Any]]  # see `probes.config.loading.load_config`

STANDS_ALONE = "an image"  # in the place of prompts that are read from rows without an indicator
PRIMARY = "ssim"  # of what can be measured, the first
DRAWING = ("prompts", "seeds", "capture")  # say what is drawn, or what is seen while it is
# of these sections the rest does
ALONE = {"sampler": ("noise",), "generate": ("part_triplets", "device", "workers")}


def configured(
    data: Mapping[str, Any],
    source: YamlSource,
    options: Options,
    context: Mapping[str, Any],
    build: Callable[..., Any],
) -> dict[str, Any]:
    """Return a configuration as it is written with what its images say in place, once all the rest is right."""
    given = data.get("prompts") is not None  # of an audit, which says what its images were drawn from
    _require_no_drawing(data, options, source.name, audit=given)
    of_run, folder = {**_of_skills(data, options), "seeds": [0]}, context["folder"]
    own = {place: value for place, value in options.items() if place[0] == "images"}
    images = build({"images": data["images"], "prompts": [PERSON], "seeds": [0]}, source, own, context).images
    path = find(images, folder)
    compares = data["indicators"] != {} if "indicators" in data else has_indicators(images, path)
    of_run["prompts"] = data["prompts"] if given else [PERSON if compares else STANDS_ALONE]
    rest = build(of_run, source, options, context)
    if given and not is_audit(rest.prompts):
        _require_no_drawing(data, options, source.name)
    if images.prompt_id not in (None, Images.model_fields["prompt_id"].default) and not has_ids(rest.prompts):
        raise UserError(
            f"{source.name}: images.prompt_id: expected none but beside prompts that ask for skills, got"
            f" {shown(images.prompt_id)}: take it out"
        )
    if not rest.compares and not of_run.get("indicators"):
        fixed = {name: {"word": entry.word} for name, entry in rest.indicators.items()}
        of_run |= {"indicators": fixed, "reference": rest.reference, "contrasts": []}
    sampler, measure = ({**(of_run.get(name) or {})} for name in ("sampler", "measure"))
    if sampler.get("noise") == "independent":
        raise UserError(
            "sampler.noise: expected own or shared beside `images`, got independent: write "
            "`images: {seed: null}` where no two images start from the same noise"
        )
    prompts = rest.prompts if given else ()
    read, first = _read(rest, path, prompts, own_noise=sampler.get("noise") == "own")
    absent = [name for name in ("seed", "triplet", "prompt_id") if getattr(first, name) is None]
    of_images = images.model_copy(update={"from_": str(path), **dict.fromkeys(absent)})
    return {
        "model": UNNAMED,
        **of_run,
        "images": of_images.model_dump(mode="json"),
        "prompts": read.prompts,
        "seeds": read.seeds,
        "sampler": {"noise": "shared" if read.shared else "own", **sampler},
        "capture": {"sites": "default", "words": False},
        "measure": {"primary": PRIMARY, **measure},
    }


def _of_skills(data: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """Return a configuration with the defaults of a set of skills, and of its images' model."""
    from probes.prompts import sets

    _, model = options.get(("model",), ("", data.get("model", UNNAMED)))
    written = {**presets.applied(data), "model": model, "seeds": [0]}
    found = sets.skill_defaults(written)
    usual = ("indicators", "reference", "contrasts", "observe")
    return {**data, **{name: found[name] for name in usual if found.get(name) != written.get(name)}}


def _require_no_drawing(data: Mapping[str, Any], options: Options, file: str, *, audit: bool = False) -> None:
    """Refuse fields and options that say how images are drawn; of an audit prompts are taken."""
    given = {(name,): f"{file}: {name}" for name in data}
    for section in ALONE:
        if isinstance(fields := data.get(section), Mapping):
            given |= {(section, name): f"{file}: {section}.{name}" for name in fields}
    given |= {place: flag for place, (flag, _) in options.items()}
    for (section, *names), said in given.items():
        drawing = section in DRAWING and not (audit and section == "prompts")
        if drawing or (names and section in ALONE and names[0] not in ALONE[section]):
            raise UserError(
                f"{said}: expected none beside `images`, whose rows say what was drawn, got one: take it out"
            )


def grouped(config: Config, path: Path, say: Say) -> Triplets:
    """Return the triplets of the images at a path (see `triplets`); of an audit by its prompts.

    `say` takes a line on what was not read, or read as something else.
    """
    prompts, own_noise = config.prompts, config.sampler.noise == "own"
    if len(config.indicators) == 1 and not has_ids(prompts):
        read, _ = _read(config, path, (), own_noise=own_noise, say=say)
        if read.prompts == [*prompts] or not is_audit(prompts):
            return read
    return _read(config, path, prompts if is_audit(prompts) else (), own_noise=own_noise, say=say)[0]


def _read(
    config: Config, path: Path, prompts: Sequence[Prompt], *, own_noise: bool, say: Say = lambda line: None
) -> tuple[Triplets, ImageRow]:
    """The triplets of the images at a path, by the prompts of an audit where there are some, and the first row."""
    images, reference = config.images, config.reference
    assert images is not None
    words = {name: entry.forms for name, entry in config.indicators.items()}
    alone = len(words) == 1 and not prompts
    by_prompt, levels = alone or bool(prompts), images.levels if alone else ()
    rows = read_rows(images, path, by_prompt=by_prompt, by_id=has_ids(prompts), levels=levels, say=say)
    if prompts:
        return audited(rows, prompts, words, reference, own_noise=own_noise), rows[0]
    any_words = images.any_words
    read = triplets(rows, words, reference, alone=alone, any_words=any_words, own_noise=own_noise)
    return read, rows[0]
