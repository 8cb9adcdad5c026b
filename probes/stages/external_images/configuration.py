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
from probes.prompts import paintskills, sets
from probes.prompts.prompt import Prompt
from probes.stages.external_images.audits import audited, has_ids, is_audit
from probes.stages.external_images.singles import singles
from probes.stages.external_images.table import ImageRow, find, has_indicators, read_rows
from probes.stages.external_images.triplets import Forms, Triplets, triplets

if TYPE_CHECKING:
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
    require_no_drawing(data, options, source.name, audit=given)
    of_run = _of_skills(data, options)
    prompts = data["prompts"] if given else [PERSON]
    if not given and data.get("indicators") == {}:
        prompts = [STANDS_ALONE]
    rest = build({**of_run, "prompts": prompts, "seeds": [0]}, source, options, context)
    assert rest.images is not None
    said = given or "indicators" in data or has_indicators(rest.images, find(rest.images, context["folder"]))
    if not said:
        rest = build({**of_run, "prompts": [STANDS_ALONE], "seeds": [0]}, source, options, context)
    if given and not is_audit(rest.prompts):
        require_no_drawing(data, options, source.name)
    assert rest.images is not None
    usual = type(rest.images).model_fields["prompt_id"].default
    if rest.images.prompt_id not in (None, usual) and not has_ids(rest.prompts):
        raise UserError(
            f"{source.name}: images.prompt_id: expected none but beside prompts that ask for skills, got"
            f" {shown(rest.images.prompt_id)}: take it out"
        )
    words = {name: entry.forms for name, entry in rest.indicators.items()}
    if not rest.compares and not of_run.get("indicators"):
        fixed = {name: {"word": entry.word} for name, entry in rest.indicators.items()}
        of_run = {**of_run, "indicators": fixed, "reference": rest.reference, "contrasts": []}
    return resolved(
        of_run, rest.images, words, rest.reference, context["folder"], rest.prompts if given else ()
    )


def _of_skills(data: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """Return a configuration with the defaults of a set of skills, and of its images' model."""
    _, model = options.get(("model",), ("", data.get("model", UNNAMED)))
    written = {**presets.applied(data), "model": model, "seeds": [0]}
    found = paintskills.defaults(written, sets.of_skills())
    usual = ("indicators", "reference", "contrasts", "observe")
    return {**data, **{name: found[name] for name in usual if found.get(name) != written.get(name)}}


def require_no_drawing(data: Mapping[str, Any], options: Options, file: str, *, audit: bool = False) -> None:
    """Refuse fields and options that say how images are drawn; of an audit prompts are taken."""
    given = {(name,): f"{file}: {name}" for name in DRAWING if name in data}
    for section in ALONE:
        fields = data.get(section)
        if isinstance(fields, Mapping):
            given |= {(section, name): f"{file}: {section}.{name}" for name in fields}
    given |= {place: flag for place, (flag, _) in options.items()}
    if audit:
        given.pop(("prompts",), None)
    for place, said in given.items():
        section, *names = place
        if section in DRAWING or (names and section in ALONE and names[0] not in ALONE[section]):
            raise UserError(
                f"{said}: expected none beside `images`, whose rows say what was drawn, got one: take it out"
            )


def resolved(
    data: Mapping[str, Any],
    images: Images,
    words: Forms,
    reference: str,
    folder: Path,
    prompts: Sequence[Prompt] = (),
) -> dict[str, Any]:
    """Return a configuration as it is written with what its images say in place."""
    path = find(images, folder)
    sampler = dict(data.get("sampler") or {})
    if sampler.get("noise") == "independent":
        raise UserError(
            "sampler.noise: expected own or shared beside `images`, got independent: write "
            "`images: {seed: null}` where no two images start from the same noise"
        )
    said, first = _said(images, path, words, reference, sampler.get("noise") == "own", prompts)
    sampler.setdefault("noise", "shared" if said.shared else "own")
    measure = dict(data.get("measure") or {})
    measure.setdefault("primary", PRIMARY)
    absent = [name for name in ("seed", "triplet", "prompt_id") if getattr(first, name) is None]
    of_run = images.model_copy(update={"from_": str(path), **dict.fromkeys(absent)})
    return {
        "model": UNNAMED,
        **data,
        "images": of_run.model_dump(mode="json"),
        "prompts": said.prompts,
        "seeds": said.seeds,
        "sampler": sampler,
        "capture": {"sites": "default", "words": False},
        "measure": measure,
    }


def grouped(
    images: Images,
    path: Path,
    words: Forms,
    reference: str,
    prompts: Sequence[Prompt],
    *,
    own_noise: bool,
    say: Callable[[str], object] = lambda line: None,
) -> Triplets:
    """Return the triplets of the images at a path (see `triplets`); of an audit by its prompts.

    `say` takes a line on what was not read, or read as something else.
    """
    if len(words) == 1 and not has_ids(prompts):
        read = _said(images, path, words, reference, own_noise, (), say)[0]
        if read.prompts == [*prompts] or not is_audit(prompts):
            return read
    return _said(images, path, words, reference, own_noise, prompts if is_audit(prompts) else (), say)[0]


def _said(
    images: Images,
    path: Path,
    words: Forms,
    reference: str,
    own_noise: bool,
    prompts: Sequence[Prompt],
    say: Callable[[str], object] = lambda line: None,
) -> tuple[Triplets, ImageRow]:
    """The triplets of the images at a path, and the first row."""
    alone = len(words) == 1 and not prompts
    rows = read_rows(
        images,
        path,
        by_prompt=alone or bool(prompts),
        by_id=has_ids(prompts),
        levels=images.levels if alone else (),
        say=say,
    )
    if alone:
        return singles(rows, *words, own_noise=own_noise), rows[0]
    if prompts:
        return audited(rows, prompts, words, reference, own_noise=own_noise), rows[0]
    said = triplets(rows, words, reference, any_words=images.any_words, own_noise=own_noise)
    return said, rows[0]
