"""The result of ``triptych verify``: its lines, as JSON and as a page."""

from __future__ import annotations

import html
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.report.figures.dots import draw_dots
from analysis.report.figures.style import Drawn
from analysis.report.result import shown_in_notebook

PASS, FAIL, UNTESTED = "pass", "fail", "cannot be tested"
_STYLE = """:root { color-scheme: light dark; color: CanvasText; background: Canvas }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em }
p, td { overflow-wrap: anywhere }
table { border-collapse: collapse }
th, td { text-align: left; vertical-align: top; padding: .3em .6em; border-bottom: 1px solid #8888 }
tr.fail { font-weight: bold; color: light-dark(#a00, #ff9c94) }"""
_HEAD = '<tr><th scope="col">Check<th scope="col">Outcome<th scope="col">What was found\n'


@dataclass(frozen=True)
class Line:
    """A check: its name, the outcome ("pass", "fail", "cannot be tested"), a sentence on it, and its numbers."""

    check: str
    status: str
    text: str
    numbers: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.status:<16}  {self.check}: {self.text}"


@dataclass(frozen=True, repr=False)
class Verification:
    """The lines of one verification, and what was verified (by name), where and with what settings.

    A notebook shows them.
    """

    about: dict[str, dict[str, Any]]
    lines: tuple[Line, ...]

    def __str__(self) -> str:
        states = [line.status for line in self.lines]
        return ", ".join(f"{states.count(status)} {status}" for status in (PASS, FAIL, UNTESTED))

    @property
    def failed(self) -> bool:
        """Whether a check failed."""
        return any(line.status == FAIL for line in self.lines)

    @property
    def table(self) -> pd.DataFrame:
        """The lines: ``check``, ``status``, ``text``, and its ``numbers`` by name."""
        return pd.DataFrame([asdict(line) for line in self.lines])

    def plot(self) -> Drawn:
        """Draw the outcome of every check."""
        states = (FAIL, UNTESTED, PASS)
        rows = self.table.assign(label=self.table["check"], value=self.table["status"].map(states.index))
        return draw_dots("verify", f"{self.about['model']['id']}: {self}", "", rows, "", ticks=states)

    def __repr__(self) -> str:
        return "\n".join([*map(str, self.lines), str(self)])

    def _repr_html_(self) -> str:
        return shown_in_notebook(str(self), self.table[["check", "status", "text"]])

    def write(self, folder: Path) -> None:
        """Write ``verify.json``, a check in each line, and ``verify.html`` into a folder."""
        head = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in self.about.items()]
        lines = ",\n".join(json.dumps(asdict(line), ensure_ascii=False) for line in self.lines)
        data = "{\n" + ",\n".join([*head, f'"lines": [\n{lines}\n]']) + "\n}\n"
        title = html.escape(f"triptych verify {self.about['model']['id']}")
        about = "".join(
            f"<p>{html.escape('; '.join(f'{name}: {value}' for name, value in part.items()))}</p>"
            for part in self.about.values()
        )
        rows = "".join(
            f'<tr class="{line.status[:4]}"><th scope="row">{line.check}<td>{line.status}<td>{html.escape(line.text)}\n'
            for line in self.lines
        )
        page = (
            '<!doctype html>\n<html lang="en"><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width">'
            f"<title>{title}</title><style>{_STYLE}</style>\n"
            f"<main><h1>{title}</h1><p><b>{self}.</b></p>\n{about}\n<table>\n{_HEAD}{rows}</table></main>\n"
        )
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in (("verify.json", data), ("verify.html", page)):
            (folder / name).write_text(text, "utf-8")
