"""The page of the docs on verified models: ``python -m lab.pages.verified > docs/validation/verified.md``.

Made of the JSON files in ``docs/validation/verified``. Those of the bundled models and of a tiny pipeline of every
family are written by ``python -m tests.benchmarks.verified``, to be run before it where a family was added.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from hooks.architectures.registry import architectures
from lab.pages.blocks import ROOT
from lab.templates import render
from triptych.verification.record import FAIL, PASS, UNTESTED

STORED = ROOT / "docs/validation/verified"
COLUMNS = {  # of the checks of `triptych.verification.verification`
    "image": ("images",),
    "maps": ("word maps", "word maps of daam"),
    "captures": (
        *("latents", "x₀ of the last step", "final latent and image", "text states", "rows of guidance"),
        "tokens of words",
    ),
    "run": ("run",),
    "trace": ("patch of own states", "patch of another text"),
    "LoRA": ("LoRA",),
    "offload": ("offload",),
    "quantized": ("quantized",),
}


@dataclass(frozen=True)
class VerifiedModel:
    """A verified model as the page shows it."""

    family: str
    model: str
    device: str
    cells: tuple[str, ...]


def row(stored: dict[str, Any]) -> VerifiedModel:
    """Return the row of a JSON file."""
    lines = {line["check"]: line for line in stored["lines"]}
    cells = tuple(cell({name: lines[name] for name in names if name in lines}) for names in COLUMNS.values())
    model, device = stored["model"], stored["machine"]["device"].partition(",")[0]
    return VerifiedModel(model["family"], f"`{model['id']}`", f"{device}, {model['dtype']}", cells)


def cell(lines: dict[str, dict[str, Any]]) -> str:
    """Return what a cell says of its checks: the worst outcome; of one that could not be made, why."""
    failed = [name for name, line in lines.items() if line["status"] == FAIL]
    if failed:
        return f"**fails**: {', '.join(failed)}"
    reasons = [line["text"] for line in lines.values() if line["status"] == UNTESTED]
    passed = any(line["status"] == PASS for line in lines.values())
    reasons = [reason for reason in reasons if not (passed and reason == "daam reads U-Nets alone")]
    if not passed:
        return f"not tried ({'; '.join(reasons) or 'no such check then'})"
    return f"yes ({'; '.join(reasons)})" if reasons else "yes"


def page() -> str:
    """Return the whole page in Markdown."""
    rows = [row(json.loads(path.read_text("utf-8"))) for path in sorted(STORED.glob("*.json"))]
    order = [architecture.name for architecture in architectures()]
    rows.sort(key=lambda one: (order.index(one.family) if one.family in order else len(order), one.model))
    untried = [name for name in order if name not in {one.family for one in rows}]
    return render("verified", columns=list(COLUMNS), rows=rows, untried=untried)


if __name__ == "__main__":
    print(page(), end="")
