"""Pages of docs/validation made of the numbers that are stored beside them.

A page ``NAME.md`` is the template ``NAME.md.j2`` filled with what ``NAME.json`` holds. Its command measures the parts
that are named and stores them beside those of before; without a part only the page is written.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.templates import render
from probes import command_line
from probes.errors import UserError
from probes.runs.parts import write_bytes

FOLDER = Path(__file__).parents[1] / "docs" / "validation"
Numbers = Mapping[str, Any]


@dataclass(frozen=True)
class MeasuredPage:
    """A page of docs/validation with the way to measure what it says."""

    name: str  # of the page, its JSON and its template
    module: str  # that is run
    about: str  # one sentence for the command's help
    values: Callable[[Numbers], Numbers]  # what the template is given, from the stored numbers
    measure: Callable[[str], Numbers]  # what is stored of a part, by name
    parts: Sequence[
        str
    ] = ()  # that can be measured, in the order in which they are stored; none: any run's folder

    @property
    def path(self) -> Path:
        """The page in the documentation."""
        return FOLDER / f"{self.name}.md"

    def stored(self, out: Path | None = None) -> dict[str, Any]:
        """The numbers beside a page, the documentation's if none is named; empty where there are none."""
        path = (out or self.path).with_suffix(".json")
        return json.loads(path.read_text("utf-8")) if path.is_file() else {}

    def text(self, numbers: Numbers | None = None) -> str:
        """The page in Markdown, of the numbers that are stored where none are given."""
        return render(self.name, **self.values(self.stored() if numbers is None else numbers))

    def work(self, options: argparse.Namespace) -> None:
        """Measure what the command line names, and write the page."""
        command_line.writable(options.out)
        numbers = self.stored(options.out)
        for part in options.parts:
            numbers |= self.measure(part)
            order = dict.fromkeys([*self.parts, *numbers])
            numbers = {name: numbers[name] for name in order if name in numbers}
            text = json.dumps(numbers, ensure_ascii=False, separators=(",", ":")) + "\n"
            write_bytes(options.out.with_suffix(".json"), text.encode())
        if not numbers:
            one, path = "a part" if self.parts else "a run", options.out.with_suffix(".json")
            raise UserError(f"command line: expected {one}, or numbers in {path}, found neither: name {one}")
        write_bytes(options.out, self.text(numbers).encode())
        print(options.out)

    def main(self, argv: Sequence[str] | None = None) -> int:
        """Run the command line; return its exit status."""
        parser = command_line.Parser(prog=f"python -m {self.module}", description=self.about)
        kind = {"type": self._part} if self.parts else {"type": command_line.run_directory, "metavar": "RUN"}
        about = "measured anew (none: the page is written from what is stored)"
        about = f"{', '.join(self.parts)}: {about}" if self.parts else f"observed runs that are {about}"
        parser.add_argument("parts", nargs="*", help=about, **kind)
        parser.add_argument("--out", type=Path, default=self.path, help="page, beside its JSON")
        return command_line.run(self.work, parser, argv)

    def _part(self, text: str) -> str:
        if text not in self.parts:
            raise argparse.ArgumentTypeError(f"expected one of {', '.join(self.parts)}, got {text!r}")
        return text
