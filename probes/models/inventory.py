"""What can be loaded: rows of a name in ``model:``, how far it was tested, and what it is."""

from __future__ import annotations

from collections import defaultdict

from hooks.architectures.registry import SUPPORTED_PIPELINES, drawing_pipelines
from probes.json_text import parse_json
from probes.models import hub, single_file
from probes.models.source import INDEX
from probes.toyworld import REGISTRY, bundled_folder

Row = tuple[str, str, str]


def bundled() -> list[Row]:
    """The models that come with the package, with the share of things that each draws where they are named."""
    rows = []
    for name, model in REGISTRY.items():
        quality = parse_json((bundled_folder(name) / "quality.json").read_bytes())
        rows.append((name, f"trained; {quality['nouns_mean']:.0%}", model.about))
    return rows


def layouts() -> list[Row]:
    """The pipelines that a run can draw with, and the published sizes at which each was tested."""
    sizes = defaultdict(list)
    for index in sorted(single_file.DESCRIPTIONS.glob(f"*/{INDEX}")):
        sizes[parse_json(index.read_bytes())["_class_name"]].append(index.parent.name)
    rows = []
    for pipeline, (architecture, layout) in drawing_pipelines().items():
        tested = f"random weights in the layouts of {', '.join(sizes[pipeline])}"
        if architecture.transformer:
            tested = "tiny random weights in the published folder layout"
        parts = dict.fromkeys(one.classes[0] for one in layout.networks)
        rows.append((pipeline, tested, ", ".join(parts)))
    return rows


def readable_only() -> list[str]:
    """The pipelines into which a probe looks but with which a run does not draw."""
    return [name for name in SUPPORTED_PIPELINES if name not in drawing_pipelines()]


def published() -> list[Row]:
    """The models of the hub that are known by name."""
    rows = []
    for identifier, entry in hub.known().items():
        about = [f"{hub.gigabytes(identifier):.1f} GB"]
        if "withdrawn" in entry:
            about.append(f"withdrawn in {entry['withdrawn']}, copy: {entry['copy']}")
        about.append("in the cache here" if hub.cached(identifier) else "not in the cache here")
        tried = f"made a run with triptych {entry['tried']}" if "tried" in entry else "never tried"
        rows.append((identifier, tried, "; ".join(about)))
    return rows
