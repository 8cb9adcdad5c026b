"""Which engine looks for which tags: from the configuration to what the observe stage will do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from analysis.vision.engine import Engine
from analysis.vision.tag_sources import Tags, fixed
from probes.toyworld import SPECIMENS
from probes.toyworld.draw import SIZE


@dataclass(frozen=True)
class Plan:
    """What the observe stage will do; `str` says it in a line.

    Attributes
    ----------
    name : str
        The engine.
    settings : mapping
        The section ``observe`` of the configuration.
    skipped : str
        Why nothing will be looked at; empty where something will.
    """

    name: str
    settings: Mapping[str, Any]
    skipped: str = ""

    def __str__(self) -> str:
        if self.skipped:
            return f"skipped: {self.skipped}"
        from analysis.vision.checker import TAGS

        return f"toyworld-checker, {len(TAGS)} things by their palette colours, no vision model"

    @property
    def batch(self) -> int:
        """Images looked at in one go."""
        return 64 if self.name == "toyworld-checker" else self.settings["batch"]

    def fields(self) -> dict[str, Any]:
        """Every field that alters what is seen, for the identity of the parts."""
        from analysis.vision.checker import ToyworldChecker

        return {"observe.engine": self.name, "observe.detector": ToyworldChecker.record["detector"]}

    def engine(self) -> Engine:
        """The engine, loaded."""
        from analysis.vision.checker import ToyworldChecker

        return ToyworldChecker()

    def tags(self) -> Tags:
        """What to look for in each image."""
        from analysis.vision.checker import TAGS

        return fixed(TAGS, "checker")

    def record(self) -> dict[str, Any]:
        """What ``run.json`` keeps about the observer."""
        from analysis.vision.checker import ToyworldChecker

        return {
            **ToyworldChecker.record,
            "tagger": None,
            "checkpoints": {},
            "thresholds": {},
            "versions": {"triptych": metadata.version("triptych")},
        }


def plan(config: Mapping[str, Any]) -> Plan:
    """Choose the engine.

    Parameters
    ----------
    config
        The configuration as resolved.
    """
    settings = config.get("observe", {})
    if not settings.get("objects"):
        return Plan("", settings, "`observe.objects` is false")
    if settings["engine"] == "auto":
        if config["model"] not in SPECIMENS:
            return Plan("", settings, "no detector for the images of this model")
        if {config["sampler"]["height"], config["sampler"]["width"]} - {None, SIZE}:
            return Plan("", settings, f"the toyworld checker reads images of {SIZE} × {SIZE} pixels only")
    return Plan("toyworld-checker", settings)
