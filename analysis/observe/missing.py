"""Models that a configuration needs for observing and that are missing: refused before anything is generated."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from analysis.observe.checkpoints import find
from analysis.observe.features.observer import is_requested
from analysis.observe.features.registry import FEATURES
from analysis.observe.known_checkpoints import size
from probes.config.question_options import BLIP2_WEIGHTS
from probes.config.schema import Config
from probes.errors import UserError
from probes.prompts.grammar.nouns import nouns


def absent(config: Config) -> list[str]:
    """Return what a configuration needs for observing, or for nouns, and is not on this machine, each with its size.

    A model of the hub that is not in its cache counts as there: it is fetched when it is asked for.
    """
    from analysis.observe.objects.models.grounding_dino import text_encoder

    settings, reasons = config.observe, []
    named = {kind: getattr(settings, kind) for kind in ("detector", "segmenter")}
    if "ram" in (settings.tags or []):
        named["ram"] = settings.ram
    if not settings.objects:
        named = {}
    for kind, name in named.items():
        try:
            if name:
                find(name, f"observe.{kind}", fetch=False)
        except UserError:
            reasons.append(_sized(name))
    if named.get("detector") and settings.engine == "groundingdino":
        try:
            text_encoder(settings.text_encoder)
        except UserError:
            reasons.append(_sized(settings.text_encoder))
    reasons += _without_answers(config)
    try:
        nouns("a dog", backend=config.measure.nouns)
    except UserError:
        reasons.append(f"what measure.nouns: {config.measure.nouns} needs")
    return reasons


def _without_answers(config: Config) -> list[str]:
    """BLIP-2's weights, where it is to answer questions and they are not there, or not whole."""
    from analysis.observe.questions.blip2 import Blip2
    from analysis.observe.questions.observer import is_questioned
    from analysis.observe.text_generation import located

    settings = config.observe.questions
    weights = settings.blip2 or BLIP2_WEIGHTS
    if not is_questioned("blip2", config):
        return []
    try:
        located(weights, Blip2.field, settings.revision, fetch=False)
    except UserError:
        return [_sized(weights)]
    return []


def _sized(name: str) -> str:
    return f"{name} ({size(name)})" if size(name) else name


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
