"""Sources of the tags that are looked for: those of the configuration, and defaults."""

from __future__ import annotations

from typing import Any

from analysis.observe.checkpoints import TOYWORLD
from analysis.observe.objects.tags.vocabularies import EVERYDAY
from probes.config.schema import Observe
from probes.errors import UserError
from probes.paths import expand_model


def sources(settings: Observe) -> dict[str, Any]:
    """Return where tags come from, as it is settled.

    Unless it is said: the taggers that are named, else a vocabulary; and the prompt's nouns.

    Toyworld's own detectors look for everything that they know, and nothing more.
    """
    own = settings.detector == TOYWORLD
    tags: list[Any] | None = settings.tags
    if tags is None:
        tags = [kind for kind in ("ram", "tagger") if getattr(settings, kind)]
        if not tags or (settings.vocabulary and "tagger" not in tags):
            tags.append("vocabulary")
        if not own or tags != ["vocabulary"] or settings.vocabulary:
            tags.append("prompt")
    if not {"vocabulary", "tagger"} & set(tags):
        return {"tags": tags}
    return {"tags": tags, "vocabulary": settings.vocabulary or (TOYWORLD if own else EVERYDAY)}


def require_sources(settings: Observe) -> None:
    """Refuse sources of tags that do not fit, and those whose models are not named."""
    tags = settings.tags or []
    for kind in dict.fromkeys(tags):
        if tags.count(kind) > 1:
            raise UserError(f"observe.tags: `{kind}` stands twice: keep one")
    ranked = [kind for kind in tags if kind in ("vocabulary", "tagger")]
    if settings.vocabulary and not ranked:
        raise UserError(
            "observe.tags: expected `vocabulary` or `tagger`, since a vocabulary is named, got"
            f" {', '.join(tags)}: add one of them"
        )
    if "tagger" in tags and not settings.tagger:
        raise UserError(
            "observe.tagger: expected an open_clip model for the source `tagger`, found none: name a folder, or"
            " ViT-B-32/openai"
        )
    if settings.tagger:
        expand_model(settings.tagger, "observe.tagger")
    if "ram" in tags or settings.ram_tags:
        from analysis.observe.objects.tags.ram import require_ram

        require_ram(settings)
