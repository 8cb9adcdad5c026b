"""Diagnostic prompts of DALL-Eval (Cho et al. 2023, section 4.2.1): a person who works as something."""

from __future__ import annotations

from typing import TYPE_CHECKING

from probes.config_checks import levels

if TYPE_CHECKING:
    from probes.config import Config


def is_diagnostic(config: Config) -> bool:
    """Whether a run is an audit of professions: some prompt of it has the level ``profession``."""
    return any("profession" in levels(prompt) for prompt in config.prompts[: config.limit])
