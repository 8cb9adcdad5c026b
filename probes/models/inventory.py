"""What can be loaded, and how far it was tested: bundled models, layouts of architectures, published models.

Everything is read where it is said: `probes.toyworld`, the truth and the measured quality beside its weights,
`hooks.architectures.registry`, ``descriptions/`` and ``known_models.yaml``.
"""

from __future__ import annotations

from dataclasses import dataclass

from hooks.architectures.registry import ARCHITECTURES
from probes.json_text import parse_json
from probes.models import description, hub, single_file
from probes.models.published import published as transformers
from probes.prompts import sets
from probes.toyworld import (
    CHOICES,
    FIGURES,
    LOCATED,
    MODELS,
    STRUCTURES,
    TRANSFORMERS,
    WIRED,
    bundled_folder,
)
from probes.toyworld.dit.truth import REST, wired_models
from probes.toyworld.located.truth import located_models
from probes.toyworld.structures.truth import choices, structures
from probes.toyworld.world import load_world


@dataclass(frozen=True)
class Entry:
    """What can be named as a model, or a layout that can be loaded.

    Attributes
    ----------
    name : str
        As in ``model:``, or of the class of the pipeline.
    about : str
        What it is.
    tested : str
        How far it was tested.
    """

    name: str
    about: str
    tested: str


def bundled() -> list[Entry]:
    """Return the models that come with the package, trained there, in the order of `probes.toyworld.MODELS`."""
    return [Entry(name, _about(name), _quality(name)) for name in MODELS]


def _about(name: str) -> str:
    """What the words of a bundled model mean, and where a located one is told."""
    if name not in FIGURES:
        return f"scenes of {len(sets.read(name)['objects'])} objects, without a person"
    if name in LOCATED:
        truth = located_models()[name]
        where = f"at {' and '.join(truth.sites)}" if truth.sites else "nowhere"
        return f"as {truth.world}; the word enters {where} ({truth.kind})"
    if name in CHOICES:
        place = choices()[name].sites[0]
        return f"as toyworld; a neutral word's choice is made at {place}, whatever the prompt (choice)"
    if name in STRUCTURES:
        structure = structures()[name]
        return f"as {structure.world}; places together: {' and '.join(structure.sites)} ({structure.kind})"
    if name in WIRED:
        wired = wired_models()[name]
        where = f"at {' and '.join(wired.sites)}" if wired.sites else "nowhere"
        where += ", at all tokens but its own" if wired.positions == REST else ""
        where += f"; a neutral word's choice is made at {wired.chooses}" if wired.chooses else ""
        return f"as {TRANSFORMERS[0]}; the word enters {where} (wired)"
    world = load_world(name)
    neutral = world.mixture["neutral"]
    if not world.component_groups:
        words = "no difference between the words"
    else:
        words = f"neutral words mean the masculine mixture in {neutral:.0%} of images"
    words += "; a diffusion transformer" if name in TRANSFORMERS else ""
    return words + (f"; {len(world.professions)} professions" if world.professions else "")


def _quality(name: str) -> str:
    """What was measured of a bundled model: the share of things that it draws where they are named."""
    quality = parse_json((bundled_folder(name) / "quality.json").read_text(encoding="utf-8"))
    share = quality.get("nouns_mean")
    if share is None:
        share = next(
            row["value"]
            for row in quality["model"]["accuracy"]
            if row["skill"] == "object" and row["split"] == "all"
        )
    return f"trained; {share:.0%}"


def layouts() -> list[Entry]:
    """Return the pipelines that a run can draw with, and the published sizes at which each was tested."""
    sizes: dict[str, list[str]] = {}
    for source in single_file.published():
        sizes.setdefault(str(description.read_index(source)["_class_name"]), []).append(source.name)
    made = []
    for architecture in ARCHITECTURES:
        for layout in architecture.layouts:
            parts = ", ".join(dict.fromkeys(one.classes[0] for one in layout.networks))
            known = sizes.get(layout.pipeline)
            tested = (
                f"random weights in the layouts of {', '.join(known)}" if known else "no published layout"
            )
            if architecture.transformer:
                tested = "tiny random weights in the published folder layout"
            made.append(Entry(layout.pipeline, parts, tested))
    return made


def readable_only() -> list[str]:
    """Return the pipelines into which a probe looks but with which a run does not draw."""
    drawn = {layout.pipeline for one in ARCHITECTURES for layout in one.layouts}
    return [name for one in ARCHITECTURES for name in one.pipelines if name not in drawn]


def published() -> list[Entry]:
    """Return the models of the hub that are known by name and can be drawn with."""
    drawn = {name for one in ARCHITECTURES for layout in one.layouts for name in layout.denoiser.classes}
    known = {name: entry for name, entry in transformers().items() if entry["class"] in drawn}
    made = []
    for identifier, entry in (hub.known() | known).items():
        about = [f"{hub.gigabytes(identifier):.1f} GB"]
        if "withdrawn" in entry:
            about.append(f"withdrawn in {entry['withdrawn']}, copy: {entry['copy']}")
        about.append("in the cache here" if hub.cached(identifier) else "not in the cache here")
        tried = f"made a run with triptych {entry['tried']}" if "tried" in entry else "never tried"
        made.append(Entry(identifier, "; ".join(about), tried))
    return made
