"""Options of the laboratory's commands that have another name now."""

from __future__ import annotations

import argparse
from typing import Any


def add_renamed(parser: argparse.ArgumentParser, old: str, new: str) -> None:
    """Refuse an option by its former name with one line that says its new one."""
    parser.add_argument(old, action=_Renamed, new=new, help=argparse.SUPPRESS)


class _Renamed(argparse.Action):
    """An option that has another name now."""

    def __init__(self, *args: Any, new: str, **options: Any) -> None:
        super().__init__(*args, **options, nargs="*", default=argparse.SUPPRESS)
        self.new = new

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: Any, values: Any, name: Any = None
    ) -> None:
        parser.error(f"{name} is now {self.new}")
