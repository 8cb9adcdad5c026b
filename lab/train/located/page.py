"""Sections on located and wired benchmark models of the page on toyworld, as measured (`lab.pages.toyworld`)."""

from typing import Any

from lab.templates import render
from lab.train.pages import stored
from probes.toyworld import TRANSFORMERS, WEIGHTS
from probes.toyworld.places import known_places

REFERENCE = "toyworld"


def located_section() -> str:
    """Return the section on located models in Markdown, from ``quality.json`` of each and of `toyworld`."""
    return render("toyworld_located", reference=measured_quality(), rows=_rows("located", REFERENCE))


def wired_section() -> str:
    """Return the section on wired transformers, from ``quality.json`` of each and of `toyworld-dit`."""
    base = TRANSFORMERS[0]
    return render("toyworld_wired", reference=stored(f"wired/{base}"), rows=_rows("wired", base))


def is_control(measured: dict[str, Any], reference: dict[str, Any]) -> bool:
    """Return whether a benchmark model's total effect is below half of the reference's."""
    return measured["total_effect"]["mean"] < reference["total_effect"]["mean"] / 2


def measured_quality(name: str = REFERENCE) -> dict[str, Any]:
    """Return what is published with a located benchmark model, or with `toyworld`, measured in the same way."""
    return stored(f"located/{name}")


def _rows(group: str, base: str) -> list[dict[str, Any]]:
    """A row of the table for the reference, and for each model of a group."""
    rows, reference = [], stored(f"{group}/{base}")
    for name, model in {base: None, **known_places(group)}.items():
        measured, delta = stored(f"{group}/{name}"), WEIGHTS / group / name / "delta.safetensors"
        used_as = "control" if is_control(measured, reference) else "benchmark model"
        join = " and " if group == "wired" else "; "
        rows.append(
            {
                "name": name,
                "place": join.join(f"`{site}`" for site in model.sites) or "nowhere"
                if model
                else "not by wiring",
                "gain": f"{model.gain:g}" if model else "–",
                "effect": measured["total_effect"],
                "neutral": measured["means"]["neutral"],
                "nouns": measured["nouns_mean"],
                "size": delta.stat().st_size / 1000 if delta.exists() else None,
                "used_as": used_as if model else "reference",
            }
        )
    return rows
