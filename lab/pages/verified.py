"""The page of the docs on verified models: ``python -m lab.pages.verified > docs/validation/verified.md``.

Made of the JSON files in ``docs/validation/verified``. Those of the bundled models and of a tiny pipeline of every
family are written by ``python -m tests.benchmarks.verified``, to be run before it where a family was added.
"""

from __future__ import annotations

import json
from typing import Any

from hooks.architectures.registry import architectures
from lab.pages.blocks import ROOT
from lab.templates import render
from triptych.verification.record import FAIL, PASS, UNTESTED

SUPERSCRIPT = str.maketrans("0123456789,", "⁰¹²³⁴⁵⁶⁷⁸⁹˒")
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


def cell(lines: dict[str, dict[str, Any]], reasons: dict[str, int]) -> str:
    """Return what a cell says of its checks: the worst outcome, with the number of the reason of what was not tried."""
    failed = [name for name, line in lines.items() if line["status"] == FAIL]
    if failed:
        return f"**fails**: {', '.join(failed)}"
    untested = [line["text"] for line in lines.values() if line["status"] == UNTESTED]
    passed = any(line["status"] == PASS for line in lines.values())
    untested = [reason for reason in untested if not (passed and reason == "daam reads U-Nets alone")]
    untested = untested or ["no such check then"] * (not passed)
    numbers = ",".join(str(reasons.setdefault(one, len(reasons) + 1)) for one in untested)
    return ("yes" if passed else "–") + numbers.translate(SUPERSCRIPT)


def page() -> str:
    """Return the whole page in Markdown."""
    files = [json.loads(path.read_text("utf-8")) for path in sorted(STORED.glob("*.json"))]
    order = [architecture.name for architecture in architectures()]

    def place(file: dict[str, Any]) -> tuple[int, str]:
        family = file["model"]["family"]
        return order.index(family) if family in order else len(order), file["model"]["id"]

    reasons: dict[str, int] = {}
    rows = []
    for file in sorted(files, key=place):
        model, lines = file["model"], {line["check"]: line for line in file["lines"]}
        cells = [
            cell({name: lines[name] for name in names if name in lines}, reasons)
            for names in COLUMNS.values()
        ]
        device = file["machine"]["device"].partition(",")[0]
        rows.append((model["family"], f"`{model['id']}`", f"{device}/{model['dtype']}", *cells))
    untried = [name for name in order if name not in {row[0] for row in rows}]
    return render("verified", columns=list(COLUMNS), rows=rows, reasons=list(reasons), untried=untried)


if __name__ == "__main__":
    print(page(), end="")
