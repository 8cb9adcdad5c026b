"""Figures that are drawn once for the same tables: they are pure functions of them, and take the time of a report."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

import analysis.report.page
from analysis.report.page import Content


def remember_figures(monkeypatch: pytest.MonkeyPatch, kept: dict[Any, Any]) -> None:
    """Draw in `analysis.report.page` only what is not among those kept, and keep it."""
    draw, saved = analysis.report.page.draw, analysis.report.page.saved

    def drawn(content: Content) -> dict:
        key = _shown(content)
        if key not in kept:
            kept[key] = draw(content)
        return kept[key]

    def written(figures: dict, team: Any = None, processes: int = 1) -> dict:
        key = tuple(map(id, figures.values()))  # of figures that are kept, so no others have them
        if key not in kept:
            kept[key] = saved(figures, team, processes), figures
        return kept[key][0]

    monkeypatch.setattr(analysis.report.page, "draw", drawn)
    monkeypatch.setattr(analysis.report.page, "saved", written)


def _shown(content: Content) -> str:
    """All that the figures are drawn from: tables, images of the gallery and what the configuration chooses."""
    tables = [content.gap, content.disparity, content.samples]
    tables += list(content.objects.tables.values()) if content.objects else []
    texts = [table.to_csv() for table in tables]
    images = [
        (name, image.size, hashlib.sha256(image.tobytes()).hexdigest())
        for name, image in content.images.items()
    ]
    chosen = [
        content.timesteps,
        content.chosen,
        content.objects is None,
        content.config.model_dump(mode="json"),
    ]
    chosen[-1].pop("out", None)
    # by what is written, not pickled: that differs between equal objects and the same one twice
    return hashlib.sha256(repr((texts, images, chosen)).encode()).hexdigest()


def leave_figures_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make reports without figures, where a test is about tables and sentences."""
    monkeypatch.setattr(analysis.report.page, "draw", lambda content: {})
