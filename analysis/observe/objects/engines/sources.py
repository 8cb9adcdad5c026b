"""Sources of the tags that are looked for: those of the configuration, and defaults."""

from __future__ import annotations

from typing import Any

from analysis.observe.checkpoints import TOYWORLD
from analysis.observe.objects.tags.vocabularies import EVERYDAY
from probes.config.schema import Observe
from probes.errors import UserError


def sources(settings: Observe) -> dict[str, Any]:
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


def require_sources(settings: Observe) -> None:
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
