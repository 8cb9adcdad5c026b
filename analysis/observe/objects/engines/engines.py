"""The plan of object detection: from the configuration to an engine and its tags."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from analysis.observe.checkpoints import TOYWORLD, find, sha256, weight_files
from analysis.observe.objects.detection import DetectionEngine
from analysis.observe.objects.engines.detr_plan import detr_plan
from analysis.observe.objects.engines.plans import (
    CHECKER,
    DETR,
    GROUNDED,
    SCENES,
    CheckerPlan,
    ModelPlan,
    ObservationPlan,
    ScenesPlan,
    description,
    parameters,
)
from analysis.observe.objects.engines.sources import require_sources, sources
from analysis.observe.objects.tags.tag_captions import fewest_captions
from analysis.observe.objects.tags.tags import Tags, combined, fixed, prompt_nouns, read_vocabulary
from probes.config.schema import Config
from probes.errors import UserError
from probes.paths import name_of
from probes.runs.parts import digest
from probes.toyworld import MODELS
from probes.toyworld.draw import SIZE

OWN_NMS = 0.8  # a garment's box can be nearly the figure's: with the usual 0.5 one of them would go
USUAL_NMS = 0.5
_MODELS = ("detector", "segmenter")
THRESHOLDS = ("box_threshold", "text_threshold", "nms_iou")
_NAME = (
    "`observe.detector` (such as groundingdino_swint_ogc.pth) and `observe.segmenter` (such as"
    " sam_vit_h_4b8939.pth)"
)
_LINES = "write `detector: IDEA-Research/grounding-dino-tiny` and `segmenter: facebook/sam-vit-base` under `observe:`"


class GroundedPlan(ModelPlan):
    """A detector and a segmenter will look."""

    def __str__(self) -> str:
        settings = self.settings
        count = f" ({len(self.vocabulary)} tags)" if self.vocabulary else ""
        more = f"; at least {self.passes} passes of the detector over each image"
        passes = more if self.passes > 1 else ""
        return (
            f"{self.name}: boxes by {settings.detector}, masks by {settings.segmenter}, tags from"
            f" {', '.join(settings.tags)}{count}; batches of {self.batch} on {self.device}{passes}"
        )

    @cached_property
    def passes(self) -> int:
        """Captions, at least, in which an image's tags fit: of each the detector makes a pass."""
        if "vocabulary" in self.settings.tags:
            return fewest_captions(self.vocabulary)
        return 1

    @property
    def _thresholds(self) -> dict[str, float]:
        return {name: getattr(self.settings, name) for name in THRESHOLDS}

    @cached_property
    def vocabulary(self) -> list[str]:
        """The tags of the vocabulary file, if one is named."""
        return read_vocabulary(self.settings.vocabulary) if self.settings.vocabulary else []

    @property
    def parameters(self) -> int:
        """Parameters of all models, about: in float32, as they are loaded, a fourth of their checkpoints' bytes.

        RAM's checkpoint holds far more than the tagger, so its are counted.
        """
        counted = self.ram.parameters if "ram" in self.settings.tags else 0
        files = [Path(file) for kind, hashes in self.checkpoints.items() if kind != "ram" for file in hashes]
        return parameters(files) + counted

    @cached_property
    def paths(self) -> dict[str, Path]:
        """Paths of the detector and the segmenter on this machine; fetches those of the hub."""
        return {kind: find(getattr(self.settings, kind), f"observe.{kind}") for kind in _MODELS}

    @cached_property
    def checkpoints(self) -> dict[str, dict[str, str]]:
        """The checksum of every file of weights, by what it is for."""
        checkpoints = {
            kind: {str(file.absolute()): sha256(file) for file in weight_files(path)}
            for kind, path in self.paths.items()
        }
        if "ram" in self.settings.tags:
            checkpoints["ram"] = {str(self.ram.weights.absolute()): sha256(self.ram.weights)}
        return checkpoints

    @cached_property
    def ram(self) -> Any:
        """RAM's checkpoint, tags and thresholds, checked; fetches it from the hub."""
        from analysis.observe.objects.tags.ram import named_files

        return named_files(self.settings)

    def fields(self) -> dict[str, Any]:
        """Every field that alters what is seen, for the identity of the parts."""
        settings, sources = self.settings, self.settings.tags
        names = ("tags", *THRESHOLDS, "batch")
        fields = {
            "observe.engine": self.name,
            "observe.text_encoder": name_of(settings.text_encoder),
            **{f"observe.{name}": getattr(settings, name) for name in names},
        }
        for kind, files in self.checkpoints.items():
            fields[f"observe.{kind}"] = sorted(files.values()) or name_of(getattr(settings, kind))
        fields |= {f"observe.{kind}.description": description(path) for kind, path in self.paths.items()}
        if "vocabulary" in sources:
            fields["observe.vocabulary"] = digest("\n".join(self.vocabulary))
        if "ram" in sources:
            fields["observe.ram_tags"] = self.ram.digest
        if "prompt" in sources:
            fields |= {
                f"measure.{name}": getattr(self.config.measure, name) for name in ("nouns", "compounds")
            }
            if not all(prompt.template for prompt in self.config.prompts):
                fields["observe.prompt_nouns"] = "of the triplet"
        return {**fields, "observe.device": self.device.type}

    def engine(self) -> DetectionEngine:
        """The engine, loaded."""
        from analysis.observe.objects.models.grounded_sam import GroundedEngine
        from analysis.observe.objects.models.grounding_dino import GroundingDino
        from analysis.observe.objects.models.segment_anything import SegmentAnything

        return GroundedEngine(
            GroundingDino(self.paths["detector"], self.settings.text_encoder, self.device),
            SegmentAnything(self.paths["segmenter"], self.device),
            **self._thresholds,
            batch=self.batch,
        )

    def tags(self) -> Tags:
        """Return the tags to look for in each image."""
        return combined([self._source(kind) for kind in self.settings.tags])

    def _source(self, kind: str) -> Tags:
        measure = self.config.measure
        if kind == "prompt":
            words = [form for entry in self.config.indicators.values() for form in entry.forms]
            return prompt_nouns(backend=measure.nouns, compounds=measure.compounds, indicators=words)
        if kind == "vocabulary":
            return fixed(self.vocabulary, "vocabulary")
        from analysis.observe.objects.tags.ram import RamTagger

        return RamTagger(self.ram, self.device)

    def record(self) -> dict[str, Any]:
        """Return what ``run.json`` keeps about the observer."""
        settings = self.settings
        return {
            "engine": self.name,
            "detector": name_of(settings.detector),
            "segmenter": name_of(settings.segmenter),
            "ram": name_of(settings.ram) if "ram" in settings.tags else None,
            "tags": list(settings.tags),
            "vocabulary": name_of(settings.vocabulary) if settings.vocabulary else None,
            "vocabulary_tags": len(self.vocabulary),
            "checkpoints": self.checkpoints,
            "thresholds": self._thresholds,
            "versions": self.versions,
        }


def engine_plan(config: Config) -> ObservationPlan:
    """Choose the engine, and check what can be checked without loading or fetching anything."""
    settings = config.observe
    if not settings.objects:
        return ObservationPlan("", config, "`observe.objects` is false")
    name = settings.engine
    named = [kind for kind in _MODELS if getattr(settings, kind)]
    if name == "auto" and not named:
        if config.model not in MODELS:
            return ObservationPlan("", config, f"no detector for the images of this model: {_LINES}")
        if {config.sampler.height, config.sampler.width} - {None, SIZE}:
            reason = f"toyworld's detectors know images of {SIZE} × {SIZE} pixels only: name {_NAME}"
            return ObservationPlan("", config, reason)
        settings, named = settings.model_copy(update=dict.fromkeys(_MODELS, TOYWORLD)), list(_MODELS)
    if name in (CHECKER, SCENES):
        return (CheckerPlan if name == CHECKER else ScenesPlan)(name, config)
    if name == DETR:
        return detr_plan(config)
    if len(named) < 2:
        raise UserError(f"observe: expected {_NAME}, got {' and '.join(named) or 'neither'} alone: name both")
    settings = settings.model_copy(update=sources(settings))
    if settings.nms_iou is None:
        usual = OWN_NMS if settings.detector == TOYWORLD else USUAL_NMS
        settings = settings.model_copy(update={"nms_iou": usual})
    # `transformers` was an implementation of its own; its checkpoints load into this one
    chosen = GroundedPlan(GROUNDED, config.model_copy(update={"observe": settings}))
    require_sources(settings)
    _ = chosen.vocabulary
    for kind in named:
        find(getattr(settings, kind), f"observe.{kind}", fetch=False)
    _ = chosen.device
    return chosen
