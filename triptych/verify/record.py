"""The result of ``triptych verify``: its lines, as JSON and as a page."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

PASS, FAIL, UNTESTED = "pass", "fail", "cannot be tested"
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .3em .6em; border-bottom: 1px solid #ccc; }
td:nth-child(2) { white-space: nowrap; }
tr.fail td { font-weight: bold; color: #a00; }
"""


@dataclass(frozen=True)
class Line:
    """A check: its name, the outcome ("pass", "fail", "cannot be tested"), a sentence on it, and its numbers."""

    check: str
    status: str
    text: str
    values: dict[str, Any]


@dataclass(frozen=True)
class Verification:
    """All lines of one verification, and what was verified, where and with what settings."""

    model: dict[str, Any]
    machine: dict[str, Any]
    call: dict[str, Any]
    lines: tuple[Line, ...]

    @property
    def failed(self) -> list[str]:
        """Names of the checks that failed."""
        return [line.check for line in self.lines if line.status == FAIL]

    @property
    def summary(self) -> str:
        """How many checks passed, failed and could not be made."""
        counts = [
            (sum(line.status == status for line in self.lines), status) for status in (PASS, FAIL, UNTESTED)
        ]
        return ", ".join(f"{count} {status}" for count, status in counts)

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write ``verify.json`` and ``verify.html`` into a folder, and return their paths."""
        folder.mkdir(parents=True, exist_ok=True)
        data, page = folder / "verify.json", folder / "verify.html"
        data.write_text(self.to_json(), "utf-8")
        page.write_text(self.to_html(), "utf-8")
        return data, page

    def to_json(self) -> str:
        """Return the JSON, a check in each line of text."""
        head = {"format": 1, "model": self.model, "machine": self.machine, "call": self.call}
        entries = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
        lines = ",\n".join(json.dumps(asdict(line), ensure_ascii=False) for line in self.lines)
        return "{\n" + ",\n".join(entries) + ',\n"lines": [\n' + lines + "\n]\n}\n"

    def to_html(self) -> str:
        """Return the page, one table of checks under what was verified."""
        rows = "\n".join(
            f'<tr class="{line.status.split()[0]}"><td>{html.escape(line.check)}</td><td>{line.status}</td>'
            f"<td>{html.escape(line.text)}</td></tr>"
            for line in self.lines
        )
        title = f"triptych verify {html.escape(str(self.model['id']))}"
        about = "".join(
            f"<p>{html.escape(_words(part))}</p>" for part in (self.model, self.machine, self.call)
        )
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            f"<style>{_STYLE}</style></head>\n<body><h1>{title}</h1>\n<p><b>{self.summary}.</b></p>\n{about}\n<table>"
            f"<tr><th>check</th><th>result</th><th>what was found</th></tr>\n{rows}\n</table></body></html>\n"
        )


def _words(part: Mapping[str, Any]) -> str:
    """Return names and values in one line."""
    return "; ".join(f"{name.replace('_', ' ')}: {value}" for name, value in part.items())
