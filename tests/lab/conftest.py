"""Everything of the laboratory runs with ``pytest -m lab``, and what is marked slow with ``-m slow``."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE) and not item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.lab)
