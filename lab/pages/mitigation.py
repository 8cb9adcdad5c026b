"""Print ``docs/validation/mitigation.md`` from what was measured: ``python -m lab.pages.mitigation``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from analysis.methods.mitigation.command import SAID
from analysis.methods.mitigation.measures import CORRECTED, LEAN, NAMED, PIXELS, SCENES, THING, VERDICT
from lab.templates import render
from probes.json_text import parse_json

DOCS = Path(__file__).parents[2] / "docs" / "validation"
RESULT, PLACES, RIDGES = (DOCS / f"mitigation{name}.json" for name in ("", "_places", "_ridges"))


def page(result: dict[str, Any], places: dict[str, Any], ridges: dict[str, Any]) -> str:
    """Return the page in Markdown.

    Parameters
    ----------
    result : dict
        ``mitigation.json``, as the command writes it.
    places : dict
        ``mitigation_places.json``, as `python -m lab.validate.tracing.edited` writes it.
    ridges : dict
        ``mitigation_ridges.json``, as `python -m lab.validate.tracing.amount` writes it.
    """
    word, other, share = _moved(result["after"]["edit"]["edit"]["words"])
    placed_word, placed_other, placed_share = _moved(places["words"])
    leans = {row["indicator"]: row for row in result["rows"] if row["kind"] == LEAN}
    return render(
        "mitigation",
        result=result,
        places=places,
        default={
            **ridges,
            "contexts": len(result["after"]["edit"]["edit"]["contexts"]),
            "change": max(one["change"] for one in ridges["tried"]),
            "named": min(one["named"] for one in ridges["tried"]),
        },
        words=result["indicators"],
        **{"word": word, "other": other, "share": share},
        **{"placed_word": placed_word, "placed_other": placed_other, "placed_share": placed_share},
        rows=_rows(result),
        things=_things(result),
        noises={name: row["n_images"] // row["n_prompts"] for name, row in leans.items()},
        leans=leans,
        corrected={row["indicator"]: row for row in result["rows"] if row["kind"] == CORRECTED},
        by_place=_by_place(places["rows"], placed_word),
    )


def _moved(words: dict[str, dict[str, float]]) -> tuple[str, str, float]:
    """Return the word that is edited, the one towards which it moves, and how far."""
    (word, shares), *_ = words.items()
    (other, share), *_ = shares.items()
    return word, other, share


def _rows(result: dict[str, Any]) -> list[tuple[dict[str, Any], str, int, bool]]:
    """Return the rows of the first table: what it is, decimals, and whether equivalence is asked for."""
    return [
        # no other word than the reference is meant to be at ½
        (row, SAID[kind], 2 if kind == VERDICT else 3, row["equivalence_p"] is not None and asked)
        for kind in (LEAN, CORRECTED, VERDICT, NAMED, SCENES, PIXELS)
        for row in result["rows"]
        if row["kind"] == kind
        for asked in [kind != CORRECTED or row["indicator"] == result["reference"]]
    ]


def _things(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what changed of the things that no prompt names, by word."""
    found = []
    for indicator, word in result["indicators"].items():
        rows = [row for row in result["rows"] if row["kind"] == THING and row["indicator"] == indicator]
        if rows:
            adjusted = [row["p_adjusted"] for row in rows if row["p_adjusted"] is not None]
            far = {
                f"far_{side}": sum(abs(row[side] - row["planted"]) for row in rows) / len(rows)
                for side in ("before", "after")
            }
            found.append(
                {
                    "word": word,
                    "things": len(rows),
                    "changed": sum(p < 1 - result["sampling"]["level"] for p in adjusted),
                    "largest": max(rows, key=lambda row: abs(row["difference"])),
                    **far,
                }
            )
    return found


def _by_place(rows: list[dict[str, Any]], word: str) -> list[tuple[dict, list[dict], float, float]]:
    """Return of each place the row of the edited word, those of others, named things drawn and pixels."""
    places: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in rows:
        places.setdefault((row["model"], row["site"]), {})[row["word"]] = row
    found = []
    for words in places.values():
        others = [one for name, one in words.items() if name != word]
        named = sum(one["named"] for one in words.values()) / len(words)
        found.append((words[word], others, named, sum(one["pixels"] for one in others) / len(others)))
    return found


def main() -> None:
    """Print the page."""
    files = (RESULT, PLACES, RIDGES)
    print(page(*(parse_json(file.read_text(encoding="utf-8")) for file in files)), end="")


if __name__ == "__main__":
    main()
