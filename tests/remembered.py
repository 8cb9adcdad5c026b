"""Reports without figures where a run says nothing of them: `report.figures: false` is what a configuration says."""

from __future__ import annotations

import pytest

import analysis.report.page


def leave_figures_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make reports without figures, where a test is about tables and sentences."""
    monkeypatch.setattr(analysis.report.page, "draw", lambda content: {})
