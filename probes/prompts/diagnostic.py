"""Diagnostic prompts of DALL-Eval (Cho et al. 2023, section 4.2.1): a person, and a person who works as something.

A prompt of such an audit carries the levels ``profession`` (as it was named, or `NONE`) and ``setting``; a
configuration whose prompts have professions is an audit of this kind.
"""

from __future__ import annotations

from typing import Any

AXIS = "profession"
WORDING = ("template", "text")  # levels that say how a prompt is worded, and not what it is of
NONE = "(none)"  # the level of a prompt that names no profession
ALL = "(all)"  # in tables: all professions, or all words together


def is_diagnostic(config: Any) -> bool:
    """Return whether a run's configuration is an audit of professions: a prompt has the level ``profession``."""
    return bool(profession_labels(config))


def profession_labels(config: Any) -> dict[int, str]:
    """Return, by prompt index, the prompt's profession, with other levels such as ``setting`` where they differ.

    Prompts of one profession are of one place whatever their template; where they differ in another level, a setting or
    a model, the place is called by it, too: *nurse, diversity*.
    """
    cells = {
        triplet: prompt.levels
        for triplet, prompt in enumerate(config.prompts[: config.limit])
        if AXIS in prompt.levels
    }
    seen: dict[tuple[str, str], set[str]] = {}
    for levels in cells.values():
        for name in levels.keys() - {AXIS, *WORDING}:
            seen.setdefault((levels[AXIS], name), set()).add(levels[name])
    differing = sorted({name for (_, name), values in seen.items() if len(values) > 1})
    return {
        triplet: ", ".join([levels[AXIS], *(levels[name] for name in differing if name in levels)])
        for triplet, levels in cells.items()
    }


def professions(config: Any) -> tuple[str, ...]:
    """Return the distinct labels of professions (`profession_labels`), in the order of the configured prompts."""
    return tuple(dict.fromkeys(profession_labels(config).values()))
