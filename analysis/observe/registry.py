"""The observers there are, and which of them a configuration asks for."""

from __future__ import annotations

from analysis.observe.objects.engines import engine_plan
from analysis.observe.objects.observer import ObjectObserver
from analysis.observe.observer import Observer
from probes.config import Config


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
    objects = engine_plan(config)
    if objects.skipped:
        return [], str(objects)
    return [ObjectObserver(objects)], ""
