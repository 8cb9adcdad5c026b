"""A folder of images of a model that nobody can open, audited: ``triptych audit gep images FOLDER``.

It is a run of ``images: {from: FOLDER}`` with an audit's prompts (`probes.stages.external_images`), whose stages are
those of ``triptych run``.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from analysis.observe.features.attribute_audit import clip_name
from probes.config.checks import expand_synonyms
from probes.config.generation import Images
from probes.config.schema import Config, build_config
from probes.errors import UserError
from probes.fields.yaml import YamlSource, read_yaml
from probes.runs.images import read_header
from probes.runs.run import Run
from probes.stages.external_images.table import find_source, read_rows
from probes.stages.external_images.triplets import match_audit
from probes.user_tables import ENDINGS

DRAWING = ("model", "preset", "seeds", "sampler", "capture", "generate", "out", "images", "limit")
AUDIT = {
    "indicators": {"neutral": "person", "feminine": "woman", "masculine": "man"},
    "prompts": {"from": "gep"},
}


def audit(options: argparse.Namespace) -> Run:
    """Take the images of a folder in, observe them with CLIP, measure and report; return the run."""
    data, place = _written(options)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{place}.yaml"
        file.write_text(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), encoding="utf-8")
        again = ["--overwrite"] if options.overwrite else []
        options.stages([str(file), "--out", str(options.out), "--quiet", *again])
    return Run.open(options.out)


def _written(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """A configuration of the images, with the words that were asked of the model; and its name."""
    data: dict[str, Any] = dict(AUDIT)
    source = YamlSource(name="command line", text="", data=data)
    if options.config is not None:
        source = read_yaml(options.config)
        if not isinstance(source.data, dict):
            raise UserError(f"{source.name}: expected `key: value` lines of an audit, got none: see gep.yaml")
        data |= {key: value for key, value in source.data.items() if key not in DRAWING}
    gep = {**(data.get("gep") or {}), **({"clip": options.clip} if options.clip else {})}
    name = data.pop("name", None) or options.folder.absolute().name
    context = {"folder": Path(options.config).parent if options.config else Path()}
    asked = build_config({"name": name, **data, "gep": gep, "seeds": [0]}, source, context=context)
    images = Images.model_validate({"from": str(options.folder.absolute()), "names": _names(options)})
    there = _words(asked, images)
    clip, said = clip_name(asked), data.get("observe") or {}
    observe: dict[str, Any] = {**said, "features": [clip]}
    if options.weights:
        observe["feature_weights"] = {**said.get("feature_weights", {}), clip: options.weights}
    if not (asked.observe.objects and "observe" in data):
        observe["objects"] = False
    return {
        "name": name,
        **data,
        **_among(asked, expand_synonyms(data, asked.reference)["indicators"], there),
        "model": options.model or name,
        "images": images.model_dump(mode="json"),
        "gep": gep,
        "observe": observe,
    }, "audit"


def _names(options: argparse.Namespace) -> str | None:
    """Return what the names of the files mean, where no table says which image is which."""
    folder = options.folder
    if options.names or not folder.is_dir():
        return options.names
    if any(file.suffix.lower() in ENDINGS for file in folder.iterdir()):
        return None
    inside = any(file.is_file() and read_header(file)[0] for file in folder.glob("*/*"))
    return "{prompt}/{number}" if inside else "{prompt}_{number}"


def _words(asked: Config, images: Images) -> list[str]:
    """The indicators that the images were asked with."""
    rows = read_rows(images, find_source(images, Path()), by_prompt=True)
    words = {name: entry.word for name, entry in asked.indicators.items()}
    seen = {*match_audit(rows, asked.prompts, words)["indicator"]}
    there = [name for name in asked.indicators if name in seen]
    if len(there) < 2:
        listed = ", ".join(words.values())
        raise UserError(
            f"{images.from_}: expected images of prompts with at least two of the words {listed}, found"
            f" {len(there)}: name the words under `indicators` of a configuration (--config)"
        )
    return there


def _among(asked: Config, indicators: Mapping[str, Any], there: list[str]) -> dict[str, Any]:
    """Return what of indicators, reference and contrasts is left; of two words the first is the reference."""
    reference = asked.reference if asked.reference in there else there[0]
    contrasts = [pair for pair in asked.contrasts or [] if set(pair) <= set(there) and reference not in pair]
    kept = {name: indicators[name] for name in there}
    return {"indicators": kept, "reference": reference, **({"contrasts": contrasts} if contrasts else {})}
