"""Models that a configuration needs for observing and that are missing: refused before anything is generated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from analysis.observe.checkpoints import find, size
from analysis.observe.features.observer import is_requested
from analysis.observe.features.registry import FEATURES
from analysis.observe.questions.observer import is_questioned
from probes.config.observation import BLIP2_WEIGHTS
from probes.config.schema import Config
from probes.errors import UserError
from probes.prompts.grammar.nouns import nouns


def absent(config: Config) -> list[str]:
    """Return what a configuration needs for observing, or for nouns, and is not on this machine, each with its size.

    A model of the hub that is not in its cache counts as there: it is fetched when it is asked for.
    """
    from analysis.observe.objects.models.grounding_dino import text_encoder
    from analysis.observe.text_generation import located

    settings, questions = config.observe, config.observe.questions
    needed: list[tuple[str | None, Callable[[str], object]]] = []
    if settings.objects:
        for kind in ("detector", "segmenter", *(["ram"] if "ram" in (settings.tags or []) else [])):
            needed.append((getattr(settings, kind), partial(find, field=f"observe.{kind}", fetch=False)))
        if settings.detector and settings.engine == "groundingdino":
            needed.append((settings.text_encoder, text_encoder))
    if is_questioned("blip2", config):
        field, commit = "observe.questions.blip2", questions.revision
        needed.append(
            (questions.blip2 or BLIP2_WEIGHTS, partial(located, field=field, revision=commit, fetch=False))
        )
    missing = [
        f"{name} ({size(name)})" if size(name) else name
        for name, look in needed
        if name and _fails(look, name)
    ]
    if _fails(partial(nouns, backend=config.measure.nouns), "a dog"):
        missing.append(f"what measure.nouns: {config.measure.nouns} needs")
    return missing


def _fails(look: Callable[[str], object], name: str) -> bool:
    try:
        look(name)
    except UserError:
        return True
    return False


def require_primary_feature(
    config: Config, place: str, missing: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Refuse a ``measure.primary`` that compares a feature which the run is not going to hold.

    `place` is where it stands, for the message; `missing` are observers that cannot look, and why.
    """
    name = config.measure.primary
    if name not in FEATURES:
        return
    expected = f"{place}: expected a measure that the run will hold, got {name!r}"
    if not is_requested(name, config):
        raise UserError(
            f"{expected}, which `observe.features` does not name: add it, or choose another measure"
        )
    if name in missing:
        raise UserError(f"{expected}, which cannot be observed ({missing[name]}): or choose another measure")


def require_preset(config: Config) -> None:
    """Refuse a preset that this installation cannot follow: everything that is missing, in one line."""
    reasons = absent(config) if config.preset else []
    if reasons:
        raise UserError(
            f"preset {config.preset}: not on this machine: {', '.join(reasons)}: docs/how_to/models.md has the"
            " commands that fetch them; or put `observe: {objects: false}` or other names over the preset"
        )
