"""What checks and prompts read of a configuration; `probes.config.schema`, which imports them, answers it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class HasPrompts(Protocol):
    """Prompts, of which the first ``limit`` are drawn."""

    @property
    def prompts(self) -> Sequence[Any]:
        """Texts with ``{person}``, or mappings with an id, levels and texts."""

    @property
    def limit(self) -> int | None:
        """How many of them are drawn; None: all."""


class HasWords(HasPrompts, Protocol):
    """Prompts, and the words that stand in them for the person."""

    @property
    def indicators(self) -> Mapping[str, Any]:
        """By name, see `probes.config.sections.Indicator`."""

    @property
    def reference(self) -> str:
        """The name of the reference indicator."""

    @property
    def contrasts(self) -> Sequence[Sequence[str]] | None:
        """Pairs of indicators."""

    @property
    def seeds(self) -> Sequence[int]:
        """Of the noise."""

    @property
    def images(self) -> Any:
        """Where images of another program are; None where they are drawn."""
