"""What can be loaded, and how far it was tested: bundled models, layouts of architectures, published models.

Everything is read where it is said: `probes.toyworld`, the measured quality beside its weights,
`hooks.architectures.registry`, ``descriptions/`` and ``known_models.yaml``.
"""

from __future__ import annotations

from dataclasses import dataclass

from hooks.architectures.registry import ARCHITECTURES
from probes.json_text import parse_json
from probes.models import description, hub, single_file
from probes.models.published import published as transformers
from probes.toyworld import REGISTRY, bundled_folder


@dataclass(frozen=True)
class Entry:
    """A model or a class of pipeline: its name in ``model:``, what it is, how far it was tested."""

    name: str
    about: str
    tested: str


def bundled() -> list[Entry]:
    """Return the models that come with the package, trained there, in the order of `probes.toyworld.MODELS`."""
    return [Entry(name, model.about, _quality(name)) for name, model in REGISTRY.items()]


def _quality(name: str) -> str:
    """What was measured of a bundled model: the share of things that it draws where they are named."""
    quality = parse_json((bundled_folder(name) / "quality.json").read_text(encoding="utf-8"))
    return f"trained; {quality['nouns_mean']:.0%}"


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
