"""The observers there are, and which of them a configuration asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from analysis.observe.captions.observer import caption_observer
from analysis.observe.features.observer import feature_observer
from analysis.observe.features.registry import FEATURES
from analysis.observe.objects.engines.choice import object_observer
from analysis.observe.observer import Observer
from analysis.observe.questions.observer import question_observer
from analysis.observe.skin.observer import skin_observer
from probes.config.observation import READERS
from probes.config.schema import Config

# By name: from a configuration as resolved to the observer that it asks for; or to none, and why (nothing where it is
# simply not asked for).
OBSERVERS: Mapping[str, Callable[[Config], tuple[Observer | None, str]]] = {
    "objects": object_observer,
    "skin_tone": skin_observer,
    "attributes/captions": caption_observer,
    **{name: partial(feature_observer, name) for name in FEATURES},
    **{f"attributes/{name}": partial(question_observer, name) for name in READERS},
}


def observers(config: Config) -> tuple[list[Observer], dict[str, str]]:
    """The observers that a configuration asks for; and of those that cannot look, by name, why."""
    requested = {name: make(config) for name, make in OBSERVERS.items()}
    chosen = [observer for observer, _ in requested.values() if observer is not None]
    return chosen, {name: why for name, (observer, why) in requested.items() if observer is None and why}


def why_not(missing: Mapping[str, str]) -> list[str]:
    """Lines that say what does not look, and why; those of one reason together.

    >>> why_not({"objects": "no detector", "clip": "no weights", "dino": "no weights"})
    ['objects skipped: no detector', 'clip, dino skipped: no weights']
    """
    reasons: dict[str, list[str]] = {}
    for name, why in missing.items():
        reasons.setdefault(why, []).append(name)
    return [f"{', '.join(names)} skipped: {why}" for why, names in reasons.items()]
