"""Figures that are drawn once for the same tables: they are pure functions of them, and take the time of a report."""

from __future__ import annotations

import hashlib
import pickle
from typing import Any

import pytest

import analysis.report.page
from analysis.report.page import Content


def remember_figures(monkeypatch: pytest.MonkeyPatch, kept: dict[Any, Any]) -> None:
    """Draw in `analysis.report.page` only what is not among those kept, and keep it."""
    names = ("draw", "files", "inline_svg")
    real = {name: getattr(analysis.report.page, name) for name in names}

    def drawn(content: Content) -> dict:
        key = _shown(content)
        if key not in kept:
            kept[key] = real["draw"](content)
        return kept[key]

    def written(name: str):
        def once(figure: Any) -> Any:
            key = (name, id(figure))  # of a figure that is kept, so no other has it
            if key not in kept:
                kept[key] = real[name](figure), figure
            return kept[key][0]

        return once

    monkeypatch.setattr(analysis.report.page, "draw", drawn)
    for name in names[1:]:
        monkeypatch.setattr(analysis.report.page, name, written(name))


def _shown(content: Content) -> str:
    """All that the figures are drawn from: tables, images of the gallery and what the configuration chooses."""
    tables = [content.gap, content.disparity, content.samples]
    tables += list(content.objects.tables.values()) if content.objects else []
    texts = [table.to_csv() for table in tables]
    images = [(name, image.size, image.tobytes()) for name, image in content.images.items()]
    chosen = [
        content.timesteps,
        content.chosen,
        content.objects is None,
        content.config.model_dump(mode="json"),
    ]
    chosen[-1].pop("out", None)
    return hashlib.sha256(pickle.dumps((texts, images, chosen))).hexdigest()


def leave_figures_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make reports without figures, where a test is about tables and sentences."""
    monkeypatch.setattr(analysis.report.page, "draw", lambda content: {})
