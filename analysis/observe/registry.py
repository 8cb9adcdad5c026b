"""The observers there are, and which of them a configuration asks for."""

from __future__ import annotations

from collections.abc import Callable

from analysis.observe.objects.observer import object_observer
from analysis.observe.observer import Observer
from probes.config import Config

# From a configuration as resolved to the observer that it asks for; or to none, and why.
OBSERVERS: tuple[Callable[[Config], tuple[Observer | None, str]], ...] = (object_observer,)


def observers(config: Config) -> tuple[list[Observer], str]:
    """The observers that a configuration asks for; and where there are none, why.

    Parameters
    ----------
    config
        The configuration as resolved.

    Raises
    ------
    UserError
        Something that an observer needs is not named or not there.
    """
    asked = [make(config) for make in OBSERVERS]
    chosen = [observer for observer, _ in asked if observer is not None]
    return chosen, "" if chosen else "; ".join(why for _, why in asked)
