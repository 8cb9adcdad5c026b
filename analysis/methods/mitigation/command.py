"""A model before and after mitigation: ``triptych mitigate BEFORE AFTER``.

BEFORE and AFTER are runs on the same prompts and noise: of one model and of the same with an ``edit:``, or of a user's
model and what it became. What only one of them drew is left out. Writes ``mitigation.csv`` (what was drawn, one row per
quantity; most of it of toyworld's models alone, whose images a checker reads), ``gaps.csv`` (gaps by similarity, where
both runs are measured), ``mitigation.json`` and a figure.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from analysis.methods.mitigation.figures import draw_mitigation
from analysis.methods.mitigation.measures import (
    CORRECTED,
    LEAN,
    NAMED,
    PIXELS,
    SCENES,
    SHARES,
    THING,
    VERDICT,
    Sampling,
    common,
    quantities,
)
from analysis.methods.mitigation.readings import ends_of, read, world_of
from analysis.report.figures import files
from analysis.report.format import interval, listed, number, p_value
from analysis.studies.compare.differences import compare
from analysis.studies.compare.quantities import quantities as gaps_of
from analysis.studies.compare.summary import describe_models, summary
from analysis.studies.opening import opened
from probes import command_line
from probes.csv_text import csv_bytes
from probes.errors import UserError
from probes.runs.parts import write_bytes
from probes.runs.store import Run

SAID = {
    LEAN: "share of verdicts for b",
    CORRECTED: "lean between the words' own readings",
    VERDICT: "mean verdict",
    NAMED: "named things drawn",
    SCENES: "slots that differ between two images",
    PIXELS: "pixels' mean difference between two images",
}
SHOWN = 5  # changes that a line names
NO_ENDS = (
    "the lean between the words' own readings is left out: no two words of the runs mean one mixture component"
    " each"
)
UNREAD = (
    "lean, obedience, named things, planted frequencies and scenes are left out: {model} is no model of toyworld,"
    " and no checker reads its images"
)
UNMEASURED = "gaps by similarity are left out: {run} is not measured: run --stage measure on it"


def require_pair(before: Run, after: Run, also: Sequence[Run]) -> None:
    """Refuse runs that cannot be held against each other.

    Raises
    ------
    UserError
        They are one run, one of other indicators, without a common image, or `also` are runs of a third model.
    """
    paths = [run.path.resolve() for run in (before, after, *also)]
    twice = next((path for place, path in enumerate(paths) if path in paths[:place]), None)
    if twice is not None:
        raise UserError(f"{twice}: expected different runs, got it twice: name another")
    for run in (before, after, *also):
        if not run.parts("samples"):
            raise UserError(f"{run.path}: expected a run with images, found none: run --stage generate")
    for run in also:
        if _hash(run) not in (_hash(before), _hash(after)):
            raise UserError(
                f"{run.path}: expected the model of {before.path} or of {after.path}, got another (its weights"
                " differ): leave it out"
            )
    if also and _hash(before) == _hash(after):
        raise UserError(
            f"{also[0].path}: expected two models, to one of which it belongs, got one (weights of {before.path} and"
            f" {after.path} are equal): leave it out"
        )
    key = ["prompt", "indicator", "noise_seed"]
    same = before.samples(key).merge(after.samples(key), on=key)
    lacking = sorted({*before.config.indicators} - {*same["indicator"]})
    if lacking:
        raise UserError(
            f"{after.path}: expected prompts, words and seeds of {before.path}, found no common image of"
            f" {lacking[0]}: draw it with the same triplets.yaml but for `edit` or `model`"
        )


def _hash(run: Run) -> Any:
    return (run.meta.get("model") or {}).get("weight_hash")


def work_out(before: Run, after: Run, also: Sequence[Run], sampling: Sampling) -> dict[str, Any]:
    """Hold two runs against each other.

    Returns
    -------
    dict
        ``table`` (DataFrame of `analysis.methods.mitigation.measures.quantities`), ``gaps`` (DataFrame of differences,
        or None), ``left_out`` (lines that say what is missing and why), ``record`` (what was compared).
    """
    require_pair(before, after, also)
    world = world_of(before)
    world = world if world is not None and world_of(after) == world else None
    drawn = [
        read([run, *(one for one in also if _hash(one) == _hash(run))], world) for run in (before, after)
    ]
    sides = common(*drawn)
    ends = ends_of(before.config, world) if world is not None else None
    missing = []
    if world is None:
        name = str((after.meta.get("model") or {}).get("id", after.config.model))
        missing.append(UNREAD.format(model=name))
    elif ends is None:
        missing.append(NO_ENDS)
    unmeasured = next((run for run in (before, after) if "gap" not in run.tables()), None)
    gaps = None
    if unmeasured is not None:
        missing.append(UNMEASURED.format(run=unmeasured.path))
    else:
        read_gaps = [gaps_of(run, name=name) for run, name in ((before, "before"), (after, "after"))]
        options = {**sampling.interval, "permutations": sampling.permutations}
        gaps = compare(read_gaps, **options)[1]
    record = {
        "before": _model(before),
        "after": _model(after),
        "sampling": asdict(sampling),
        "images": len(sides[0].images),
        "images_left_out": [side.left_out for side in drawn],
        "images_of_one_side": [len(side.images) - len(sides[0].images) for side in drawn],
        "steps": after.config.sampler.steps,
        "indicators": {name: one.word for name, one in before.config.indicators.items()},
        "reference": before.config.reference,
    }
    table = quantities(*sides, world, sampling, ends)
    return {"table": table, "gaps": gaps, "left_out": missing, "record": record}


def _model(run: Run) -> dict[str, Any]:
    model = run.meta.get("model") or {}
    return {name: model.get(name) for name in ("id", "weight_hash", "edit")}


def lines(table: pd.DataFrame, record: dict[str, Any]) -> list[str]:
    """The table as text: one line per quantity, things together."""
    words, said = record["indicators"], []
    for row in table[table["kind"] != THING].to_dict("records"):
        digits = 2 if row["kind"] == VERDICT else 3
        ends = {
            side: f"{number(row[side], digits)} {interval(row[f'{side}_low'], row[f'{side}_high'], digits)}"
            for side in ("before", "after")
        }
        change = number(row["difference"], digits, signed=True)
        change += f" {interval(row['difference_low'], row['difference_high'], digits)}"
        test = ""
        # no other word is meant to be at ½
        asked = row["kind"] != CORRECTED or row["indicator"] == record["reference"]
        if asked and pd.notna(row["target"]):
            what = "after within" if row["target"] else "change within"
            where = f"½ ± {row['margin']:g}" if row["target"] else f"± {row['margin']:g}"
            verdict = "yes" if row["equivalent"] else "not shown"
            test = f"; {what} {where}: {verdict} ({p_value(row['equivalence_p'])})"
        said.append(
            f"{words[row['indicator']]}, {SAID[row['kind']]}: {ends['before']} → {ends['after']}, {change}{test}"
        )
    for indicator, rows in table[table["kind"] == THING].groupby("indicator", sort=False):
        changed = rows[rows["p_adjusted"] < 1 - record["sampling"]["level"]]
        far = [(rows[side] - rows["planted"]).abs().mean() for side in ("before", "after")]
        most = rows.loc[rows["difference"].abs().idxmax()]
        said.append(
            f"{words[indicator]}, things nobody asked for: {len(changed)} of {len(rows)} changed (adjusted p below "
            f"{1 - record['sampling']['level']:.2g}), most {most['what']}"
            f" ({number(most['difference'], 3, signed=True)}); mean distance from planted {far[0]:.3f} → {far[1]:.3f}"
        )
    return [*said, *_at_once(table, words)]


def _at_once(table: pd.DataFrame, words: Mapping[str, str]) -> list[str]:
    """Say which shares changed, and by how much at most the others, with intervals that hold for all rows at once."""
    rows = table[table["kind"].isin(SHARES) & table["joint_low"].notna() & table["joint_high"].notna()]
    if rows.empty:
        return []
    told = (rows["joint_low"] > 0) | (rows["joint_high"] < 0)
    names = [
        f"{words[row['indicator']]}: {row['what'] or SAID[row['kind']]}"
        f" {interval(row['joint_low'], row['joint_high'], 3)}"
        for row in rows[told].to_dict("records")
    ]
    shown = listed([*names[:SHOWN], *([f"{len(names) - SHOWN} more"] if len(names) > SHOWN else [])])
    text = f"shares that changed, with intervals for all {len(table)} rows at once: {shown or 'none'}"
    if (~told).any():
        most = rows.loc[~told, ["joint_low", "joint_high"]].abs().to_numpy().max()
        text += f"; no other by more than {number(float(most), 3)}"
    return [text]


def work(arguments: argparse.Namespace) -> None:
    """Do what the command line asks."""
    if arguments.level <= 0.5:
        raise UserError(f"--level: expected a level above 0.5, got {arguments.level}: choose another")
    command_line.writable(arguments.out, folder=True)
    before, after = opened(arguments.before), opened(arguments.after)
    names = ("level", "resamples", "permutations", "seed", "margin")
    sampling = Sampling(**{name: getattr(arguments, name) for name in names})
    result = work_out(before, after, [opened(path) for path in arguments.also], sampling)
    table, gaps = result["table"], result["gaps"]
    write_bytes(arguments.out / "mitigation.csv", csv_bytes(table))
    stored = {**result["record"], "left_out": result["left_out"], "rows": _plain(table)}
    if gaps is not None:
        write_bytes(arguments.out / "gaps.csv", csv_bytes(gaps))
    write_bytes(arguments.out / "mitigation.json", (json.dumps(stored, indent=1) + "\n").encode())
    drawn = draw_mitigation(table, result["record"]["indicators"])
    for name, data in files(drawn).items() if drawn else ():
        write_bytes(arguments.out / name, data)
    print(
        "\n".join([*describe_models([before, after], ["before", "after"]), *lines(table, result["record"])])
    )
    if gaps is not None:
        print("\n".join(summary(gaps, before.config, sampling.level)))
    for line in result["left_out"]:
        print(line)
    print(_verdict(table, gaps, sampling.level))
    print(f"table and figure: {arguments.out}")


def _verdict(table: pd.DataFrame, gaps: pd.DataFrame | None, level: float) -> str:
    """How many quantities of the images, and gaps, differ after the mitigation, in a sentence."""
    joint = table[table["joint_low"].notna() & table["joint_high"].notna()]
    told = int(((joint["joint_low"] > 0) | (joint["joint_high"] < 0)).sum())
    parts = (
        [f"{told} of {len(joint)} quantities of the images (intervals for all at once)"] if len(joint) else []
    )
    if gaps is not None and len(p_adjusted := gaps.loc[gaps["kind"] == "gap", "p_adjusted"].dropna()):
        told = int((p_adjusted < 1 - level).sum())
        parts.append(f"{told} of {len(p_adjusted)} gaps by similarity (adjusted p below {1 - level:.2g})")
    if not parts:
        return "After the mitigation: too few prompts to say what differs."
    return f"After the mitigation {listed(parts)} differ; of the others no difference can be told."


def _plain(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as JSON takes them: six significant digits, null where there is no value."""
    rows = table.astype(object).where(table.notna(), None).to_dict("records")
    return [
        {key: float(f"{value:.6g}") if isinstance(value, float) else value for key, value in row.items()}
        for row in rows
    ]
