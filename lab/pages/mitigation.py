"""Print ``docs/mitigation.md`` from what was measured: ``python -m lab.pages.mitigation``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from analysis.methods.mitigation.command import SAID
from analysis.methods.mitigation.measures import LEAN, NAMED, PIXELS, SCENES, THING, VERDICT
from analysis.report.format import interval, number, p_value
from probes.json_text import parse_json

DOCS = Path(__file__).parents[2] / "docs"
RESULT, AMOUNTS, PLACES = (
    DOCS / name for name in ("mitigation.json", "mitigation_amounts.json", "mitigation_places.json")
)
_OPENING = """\
# Mitigation, before and after

An edit alters a model after it is loaded, and is part of what a run is: `edit:` in `triplets.yaml`, or
`probes.models.edits.apply(pipe, edit)` in a notebook, which undoes it bit for bit. `run.json` keeps the hash of the weights
before and after, and the change of every matrix.

| `kind` | what it does |
|---|---|
| `keys_and_values` | solves keys and values of the cross-attentions anew, in closed form, so that a word's \
states give what a mixture of other words' gave (Gandikota et al. 2024, UCE; without `keep`, Orgad et al. 2023, TIME) |
| `project` | takes the direction from one word to another out: of what all cross-attentions read, of keys and \
values, or of the states behind a layer of a text encoder |
| `shift` | adds that direction, so much of it as `amount` says |

`triptych mitigate BEFORE AFTER` holds two runs on the same prompts and noise against each other. Of
toyworld's models it has the checker read what was drawn; of others it compares the gaps by similarity and how unlike
each other the images are, and says what is left out. `triptych compare` takes any two runs on the same
prompts, whatever was done to the model between them.
"""


def page(result: dict[str, Any], amounts: dict[str, Any], places: dict[str, Any]) -> str:
    """The page as Markdown.

    Parameters
    ----------
    result : dict
        ``mitigation.json``, as the command writes it.
    amounts : dict
        What the amount of the edit was found from: ``tried`` (amount, lean, share of named things drawn, the largest
        change of a matrix and images, by ridge), ``prompts``, ``lean_seeds``.
    places : dict
        ``mitigation_places.json``, as `python -m lab.validate.tracing.edited` writes it.
    """
    return "\n".join(
        [
            _OPENING,
            *_edit(result, amounts),
            *_table(result),
            *_things(result),
            *_reading(result),
            *_places(places),
            *_limits(amounts),
        ]
    )


def _edit(result: dict[str, Any], amounts: dict[str, Any]) -> list[str]:
    edit, words = result["after"]["edit"], result["indicators"]
    options = edit["edit"]
    (word, shares), *_ = options["words"].items()
    (other, share), *_ = shares.items()
    tried = [one for one in amounts["tried"] if one["ridge"] == options["ridge"]]
    leans = ", ".join(f"{one['amount']:g} ({one['lean']:.3f}, {one['images']} images)" for one in tried)
    before, after = result["images"]
    return [
        "## The neutral word of toyworld, edited",
        "",
        f"`docs/mitigation.yaml`: {options['kind']}, *{word}* {share:g} of the way towards *{other}*, with"
        f" {', '.join(f'*{one}*' for one in options['keep'])} kept, at {len(edit['sites'])} keys and values, solved"
        f" from {len(options['contexts'])} contexts, none of which is among the prompts below.",
        f"Of the squared distance of the edited states to their targets a share of {edit['left_over']['edited']:.3f} is"
        f" left, kept states change by {edit['left_over']['kept']:.1e}, and a matrix by"
        f" {max(edit['relative_change'].values()):.3f} at most (Frobenius norm of the change over that of the matrix).",
        "",
        f"The amount was found on {amounts['prompts']}: the shares of verdicts for b at {leans}, and a straight line"
        " through them.",
        "",
        f"{before} images before and {after} after ({result['steps']} steps; {', '.join(words.values())}). Values are"
        " over all images of a side, changes over those with the same prompt and noise; intervals are over prompts"
        f" ({result['sampling']['level']:.0%}).",
        "",
    ]


def _table(result: dict[str, Any]) -> list[str]:
    rows = [
        "| | word | before | after | change | within the margin |",
        "|---|---|---|---|---|---|",
    ]
    for kind in (LEAN, VERDICT, NAMED, SCENES, PIXELS):
        for row in result["rows"]:
            if row["kind"] == kind:
                rows.append(_line(row, result["indicators"], result["reference"]))
    margin = result["sampling"]["margin"]
    return [
        *rows,
        "",
        f"*Within the margin*: two one-sided tests (envelope of Student's t and the bootstrap) that the lean after the"
        f" edit is within ½ ± {margin:g}, and of what has no lean that the change is within"
        f" ± {margin:g}. *Share of verdicts for b*: ½ is no lean. A verdict is the log-odds of planted mixture"
        " component b against a, from what the checker sees and the prompt does not name.",
        "",
    ]


def _line(row: dict[str, Any], words: dict[str, str], reference: str) -> str:
    digits = 2 if row["kind"] == VERDICT else 3
    sides = [
        f"{number(row[side], digits)} {interval(row[f'{side}_low'], row[f'{side}_high'], digits)}"
        for side in ("before", "after")
    ]
    change = number(row["difference"], digits, signed=True)
    if row["difference_low"] is not None:
        change += f" {interval(row['difference_low'], row['difference_high'], digits)}"
    test = ""
    asked = row["kind"] != LEAN or row["indicator"] == reference  # no other word is meant to be at ½
    if asked and row["equivalence_p"] is not None:
        test = f"{'yes' if row['equivalent'] else 'not shown'}, {p_value(row['equivalence_p'])}"
    return (
        f"| {SAID[row['kind']]} | {words[row['indicator']]} | {sides[0]} | {sides[1]} | {change} | {test} |"
    )


def _things(result: dict[str, Any]) -> list[str]:
    lines = [
        "What nobody asked for, by word: how many of the things changed (p below"
        f" {1 - result['sampling']['level']:.2g}, adjusted over the things of a word), the largest change, and the mean"
        " distance of frequencies from those planted for the word.",
        "",
        "| word | things that changed | largest change | distance from planted, before | after |",
        "|---|---|---|---|---|",
    ]
    for indicator, word in result["indicators"].items():
        rows = [row for row in result["rows"] if row["kind"] == THING and row["indicator"] == indicator]
        if not rows:
            continue
        changed = sum(
            row["p_adjusted"] is not None and row["p_adjusted"] < 1 - result["sampling"]["level"]
            for row in rows
        )
        largest = max(rows, key=lambda row: abs(row["difference"]))
        far = [
            sum(abs(row[side] - row["planted"]) for row in rows) / len(rows) for side in ("before", "after")
        ]
        lines.append(
            f"| {word} | {changed} of {len(rows)} | {largest['what']} {number(largest['difference'], 3, signed=True)} |"
            f" {far[0]:.3f} | {far[1]:.3f} |"
        )
    return [*lines, ""]


def _reading(result: dict[str, Any]) -> list[str]:
    reference, words = result["reference"], result["indicators"]
    rows = {(row["kind"], row["indicator"]): row for row in result["rows"] if row["kind"] != THING}
    lean, margin = rows[LEAN, reference], result["sampling"]["margin"]
    low, high = lean["after_low"], lean["after_high"]
    inside = 0.5 - margin < low and high < 0.5 + margin
    said = [
        "## What it says",
        "",
        f"The lean of *{words[reference]}* goes from {lean['before']:.3f} to {lean['after']:.3f}; its interval"
        f" {interval(low, high)} {'lies' if inside else 'does not lie'} within ½ ± {margin:g}"
        f" and equivalence is {'shown' if lean['equivalent'] else 'not shown'} ({p_value(lean['equivalence_p'])}).",
    ]
    for indicator, word in words.items():
        row = rows[LEAN, indicator]
        if indicator == reference or row["difference_low"] is None:
            continue
        touched = row["difference_low"] > 0 or row["difference_high"] < 0
        ends = interval(row["difference_low"], row["difference_high"])
        what = "changes with it" if touched else "shows no change"
        said.append(f"*{word}* {what}: {number(row['difference'], 3, signed=True)} {ends}.")
    return [*said, ""]


def _places(places: dict[str, Any]) -> list[str]:
    (word, shares), *_ = places["words"].items()
    (other, share), *_ = shares.items()
    lines = [
        "## At one place and at another",
        "",
        f"`python -m lab.validate.tracing.edited`: the same edit (*{word}* {share:g} towards *{other}*, ridge"
        f" {places['ridge']:g}) at each cross-attention alone, and at all of them; the same captions and noise,"
        f" {places['steps']} steps, changes from the unedited model with 95% intervals over prompts. *Pixels*: mean"
        " difference of the images of the two words that were to be kept, of 0 to 1. Of located specimens the place"
        " where the word enters is known by wiring, and printed in bold.",
        "",
        f"| model | edited at | verdicts for b, *{word}* | change | change, other words | named things drawn |"
        " pixels, other words |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    by_place: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in places["rows"]:
        by_place.setdefault((row["model"], row["site"]), {})[row["word"]] = row
    return [*lines, *(_place(words, word) for words in by_place.values()), ""]


def _place(words: dict[str, dict[str, Any]], word: str) -> str:
    row, others = words[word], [one for name, one in words.items() if name != word]
    site = f"`{row['site']}`" if row["site"].startswith("unet") else row["site"]
    changes = [number(one["change"], 3, signed=True) for one in others]
    pixels = sum(one["pixels"] for one in others) / len(others)
    named = sum(one["named"] for one in words.values()) / len(words)
    ends = interval(row["change_low"], row["change_high"]) if row["change_low"] is not None else ""
    return (
        f"| {row['model']} | {f'**{site}**' if row['true'] else site} | {row['share_b']:.3f} |"
        f" {number(row['change'], 3, signed=True)} {ends} | {', '.join(changes)} | {named:.3f} | {pixels:.4f} |"
    )


def _limits(amounts: dict[str, Any]) -> list[str]:
    first = max(amounts["tried"], key=lambda one: one["change"])
    others = [one for one in amounts["tried"] if one["ridge"] != first["ridge"]]
    last = min(others, key=lambda one: abs(one["lean"] - 0.5))
    return [
        "## How to make it again",
        "",
        "`docs/mitigation.yaml` without its `edit:` is *before*; with it and seed 0 *after*; with it, the neutral words"
        f" alone and seeds {amounts['lean_seeds']}, what `--also` takes. Then",
        "",
        "```",
        "triptych mitigate runs/before runs/after --also runs/lean",
        "python -m lab.validate.tracing.edited toyworld toyworld-cross-2 --out docs/mitigation_places.json",
        "python -m lab.pages.mitigation > docs/mitigation.md",
        "```",
        "",
        "The ridge decides what the edit costs. States that no context holds (the attributes of these prompts) are free"
        f" to move where it is small: with {first['ridge']:g} and an amount of {first['amount']:g} the lean was"
        f" {first['lean']:.3f} ({first['images']} images), a matrix changed by {first['change']:.2f} of its norm, and"
        f" {first['named']:.3f} of the named things were drawn; with {last['ridge']:g} and {last['amount']:g} the lean"
        f" was {last['lean']:.3f} ({last['images']} images), the largest change {last['change']:.2f}, and"
        f" {last['named']:.3f} were drawn.",
        "",
        "A verdict rests on what is seen; a whole-body garment, a horse or a bed hides slots, so that some verdicts are"
        " wrong: explicit words do not reach 0 and 1 before the edit either.",
    ]


def main() -> None:
    """Print the page."""
    files = (RESULT, AMOUNTS, PLACES)
    print(page(*(parse_json(file.read_text(encoding="utf-8")) for file in files)))


if __name__ == "__main__":
    main()
