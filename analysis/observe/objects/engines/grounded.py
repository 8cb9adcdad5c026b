"""The observer of objects by Grounding DINO and Segment Anything (Grounded-SAM)."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from analysis.observe.checkpoints import TOYWORLD
from analysis.observe.objects.detection import DetectionEngine
from analysis.observe.objects.observer import ObjectObserver
from analysis.observe.objects.tags.tags import EVERYDAY, Tags, combined, fixed, prompt_nouns, read_vocabulary
from probes.config.schema import Config, Observe
from probes.errors import UserError
from probes.paths import display_name
from probes.runs.parts import digest

OWN_NMS = 0.8  # a garment's box can be nearly the figure's: with the usual 0.5 one of them would go
USUAL_NMS = 0.5
MODELS = ("detector", "segmenter")


class GroundedObserver(ObjectObserver):
    """A detector and a segmenter will look; what the configuration leaves open is settled."""

    engine_name = "groundingdino"
    kinds, thresholds = MODELS, ("box_threshold", "text_threshold", "nms_iou")

    def __init__(self, config: Config):
        settings = config.observe.model_copy(update=_sources(config.observe))
        if settings.nms_iou is None:
            usual = OWN_NMS if settings.detector == TOYWORLD else USUAL_NMS
            settings = settings.model_copy(update={"nms_iou": usual})
        _require_sources(settings)
        self.vocabulary = read_vocabulary(settings.vocabulary) if settings.vocabulary else []
        super().__init__(config.model_copy(update={"observe": settings}))

    @property
    def libraries(self) -> tuple[str, ...]:  # type: ignore[override]
        """Packages of detector and segmenter, and of RAM where it gives tags."""
        packages = ("torch", "torchvision", "transformers", "groundingdino-py", "segment-anything")
        return (*packages, "timm") if "ram" in self.settings.tags else packages

    def __str__(self) -> str:
        settings = self.settings
        count = f" ({len(self.vocabulary)} tags)" if self.vocabulary else ""
        return (
            f"{self.engine_name}: boxes by {settings.detector}, masks by {settings.segmenter}, tags from"
            f" {', '.join(settings.tags)}{count}; batches of {self.batch} on {self.device}"
        )

    @cached_property
    def weights(self) -> dict[str, list[Path]]:
        """Files of weights, by what they are for."""
        return super().weights | ({"ram": [self.ram.weights]} if "ram" in self.settings.tags else {})

    @cached_property
    def ram(self) -> Any:
        """RAM's checkpoint, tags and thresholds, checked; fetches it from the hub."""
        from analysis.observe.objects.tags.ram import named_files

        return named_files(self.settings)

    def fields(self) -> dict[str, Any]:
        """Every field that alters what is seen, for the identity of the parts."""
        settings, sources = self.settings, self.settings.tags
        fields = super().fields()
        fields |= {"observe.text_encoder": display_name(settings.text_encoder), "observe.tags": sources}
        if "vocabulary" in sources:
            fields["observe.vocabulary"] = digest("\n".join(self.vocabulary))
        if "ram" in sources:
            fields["observe.ram_tags"] = self.ram.digest
        if "prompt" in sources:
            for name in ("nouns", "compounds"):
                fields[f"measure.{name}"] = getattr(self.config.measure, name)
            if not all(prompt.template for prompt in self.config.prompts):
                fields["observe.prompt_nouns"] = "of the triplet"
        return fields

    def engine(self) -> DetectionEngine:
        """The engine, loaded."""
        from analysis.observe.objects.models.grounded_sam import GroundedEngine
        from analysis.observe.objects.models.grounding_dino import GroundingDino, GroundingDinoFolder
        from analysis.observe.objects.models.segment_anything import SegmentAnything, SegmentAnythingFolder

        boxes, masks, device = *self.paths.values(), self.device
        return GroundedEngine(
            GroundingDinoFolder(boxes, device)
            if boxes.is_dir()
            else GroundingDino(boxes, self.settings.text_encoder, device),
            SegmentAnythingFolder(masks, device) if masks.is_dir() else SegmentAnything(masks, device),
            **{name: getattr(self.settings, name) for name in self.thresholds},
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

    def described(self) -> dict[str, Any]:
        """Models, the sources of tags and the thresholds."""
        settings = self.settings
        return super().described() | {
            "ram": display_name(settings.ram) if "ram" in settings.tags else None,
            "vocabulary": display_name(settings.vocabulary) if settings.vocabulary else None,
            "vocabulary_tags": len(self.vocabulary),
        }


def _sources(settings: Observe) -> dict[str, Any]:
    """Return where tags come from, as it is settled.

    Unless it is said: what RAM gives where it is named, else a vocabulary; and the prompt's nouns.

    Toyworld's own detectors look for everything that they know, and nothing more.
    """
    own = settings.detector == TOYWORLD
    tags: list[Any] | None = settings.tags
    if tags is None:
        tags = ["ram"] if settings.ram else []
        if not tags or settings.vocabulary:
            tags.append("vocabulary")
        if not own or tags != ["vocabulary"] or settings.vocabulary:
            tags.append("prompt")
    if "vocabulary" not in tags:
        return {"tags": tags}
    return {"tags": tags, "vocabulary": settings.vocabulary or (TOYWORLD if own else EVERYDAY)}


def _require_sources(settings: Observe) -> None:
    """Refuse sources of tags that do not fit, and those whose models are not named."""
    tags = settings.tags or []
    for kind in dict.fromkeys(tags):
        if tags.count(kind) > 1:
            raise UserError(f"observe.tags: `{kind}` stands twice: keep one")
    if settings.vocabulary and "vocabulary" not in tags:
        raise UserError(
            f"observe.tags: expected `vocabulary`, since one is named, got {', '.join(tags)}: add it, or name none"
        )
    if "ram" in tags or settings.ram_tags:
        from analysis.observe.objects.tags.ram import require_ram

        require_ram(settings)
