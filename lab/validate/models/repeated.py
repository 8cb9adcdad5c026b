"""Claims of the report over several runs of the benchmark models, beside the ground truth.

Each run is read as its report reads it (`lab.validate.models.claims`): every claim of a difference, and whether it
contradicts what was planted.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Sequence

import pandas as pd
from PIL import Image
from scipy import stats

from analysis.report.figures import files
from analysis.report.figures.atlas import atlas_rows, draw_atlas
from analysis.study import contrasts
from analysis.tables.registry import read
from analysis.tables.similarities.stored import timesteps
from lab.templates import render
from lab.validate.models.claims import ATLAS, KINDS, Truth, said
from probes.errors import UserError
from probes.runs.store import Run

TITLE = "## What the reports of several runs claim"
NULL = "toyworld-null"
PICTURE = "null_atlas.png"
WIDTH = 900  # pixels
LEVEL = 0.95  # of the intervals of rates over runs
# beside the name of a model, by a table that only they have: audits of attributes (GEP) and traces are counted apart
APART = {"gep_score": ", attributes", "trace_total": ", trace"}
RATES = ("any_false", "unhedged", "right", "small")  # of runs or cards
KEYS = ["model", "noise"]  # runs of one model and ``sampler.noise`` are counted together


def counted_claims(run: Run) -> dict:
    """Return what the report of a run claims.

    Returns
    -------
    dict
        ``model`` (with `APART`), ``noise`` (``sampler.noise``), ``run``, ``seeds``; ``claims``:
        of `lab.validate.models.claims`;
        ``false`` and ``unhedged``: how many contradict what was planted, and how many of these are no hint; ``cells``
        of the atlas (all contrasts); ``cards``, ``small`` (cards which say that nothing larger than δ is there),
        ``primary`` and ``right``: cards of the primary measure, and those with the planted direction (none, where none
        was planted); ``leans``: towards which indicators they lean.
    """
    truth = Truth(run)
    report = said(run, truth)
    shown, found = report.cards, report.claims
    primary = [card for card in shown if card.primary]
    gap = read(run, "gap") if "gap" in run.tables() else None
    atlas = [] if gap is None else [atlas_rows(gap, contrast)["gap"] for contrast in contrasts(run.config)]
    return {
        "model": model_name(run.config.model, run.tables()),
        "noise": run.config.sampler.noise,
        "run": run.path.name,
        "seeds": ", ".join(map(str, run.config.seeds)),
        "claims": found,
        "false": sum(claim.false for claim in found),
        "unhedged": sum(claim.false and not claim.hedged for claim in found),
        "cells": int(sum(gaps.notna().sum() for gaps in atlas)),
        "cards": len(shown),
        "small": sum(card.verdict.state == "small" for card in shown),
        "primary": len(primary),
        "right": sum(card.direction == truth.nearer(card.contrast, run.config.reference) for card in primary),
        "leans": ", ".join(
            card.contrast[0] if card.direction > 0 else card.contrast[1] for card in primary if card.direction
        ),
    }


def model_name(model: str, tables: Collection[str]) -> str:
    """Return under which name the runs of a model that have these tables are counted.

    Examples
    --------
    >>> model_name("toyworld-null", ["gap", "trace_total"]), model_name("toyworld-null", ["gap"])
    ('toyworld-null, trace', 'toyworld-null')
    """
    return model + "".join(text for name, text in APART.items() if name in tables)


def grouped_claims(runs: Sequence[Run]) -> list[dict]:
    """Return what the reports of runs claim by model and ``sampler.noise``, as JSON takes it.

    Returns
    -------
    list of dict
        ``name``, ``noise``, ``runs``; ``any_false``, ``unhedged``, ``right``, ``small``: ``hits`` of ``n`` runs or
        cards; ``share`` of the cells of the atlas that are filled, in percent; ``kinds``: claims, hints and false ones
        by kind; ``rows``: a run each. What is stored may have a ``note``.
    """
    table = pd.DataFrame([counted_claims(run) for run in runs])
    table = table.sort_values(KEYS, kind="stable", key=lambda column: column.map(_place(column)))
    return [_group(*names, own) for names, own in table.groupby(KEYS, sort=False)]


def merged(stored: Sequence[dict], found: Sequence[dict]) -> list[dict]:
    """Return groups of `grouped_claims`, each of those that are found in the place of the stored one.

    Examples
    --------
    >>> of = lambda name, runs: {"name": name, "noise": "own", "runs": runs}
    >>> [one["runs"] for one in merged([of("a", 1), of("b", 2)], [of("c", 4), of("a", 3)])]
    [3, 2, 4]
    """
    groups = {(one["name"], one["noise"]): one for one in stored}
    groups |= {(one["name"], one["noise"]): one for one in found}
    return list(groups.values())


def pooled(stored: Sequence[dict], found: Sequence[dict]) -> list[dict]:
    """Return groups of `grouped_claims`, the runs of those that are found added to the stored ones.

    The share of filled cells is averaged over runs, which are of one design.

    Raises
    ------
    UserError
        A run is among the stored ones.
    """
    groups = {(one["name"], one["noise"]): one for one in stored}
    added = [_sum(groups.get((one["name"], one["noise"])), one) for one in found]
    return merged(stored, added)


def _sum(one: dict | None, other: dict) -> dict:
    """Return both groups of runs as one."""
    if one is None:
        return other
    twice = sorted({row["run"] for row in one["rows"]} & {row["run"] for row in other["rows"]})
    if twice:
        raise UserError(
            f"{one['name']}, noise {one['noise']}: expected runs that are not counted yet, got {', '.join(twice)}: "
            "leave out --add, or these runs"
        )
    kinds = {row["kind"]: row for row in one["kinds"]}
    for row in other["kinds"]:
        before = kinds.get(row["kind"], dict.fromkeys(row, 0))
        kinds[row["kind"]] = row | {name: before[name] + row[name] for name in row if name != "kind"}
    runs = one["runs"] + other["runs"]
    share = (one["share"] * one["runs"] + other["share"] * other["runs"]) / runs
    rates = {name: {key: one[name][key] + other[name][key] for key in ("hits", "n")} for name in RATES}
    return (
        one
        | rates
        | {
            "runs": runs,
            "share": round(share, 1),
            "kinds": [kinds[name] for name in KINDS if name in kinds],
            "rows": [*one["rows"], *other["rows"]],
        }
    )


def claims_section(groups: Sequence[dict], picture: bool = False) -> str:
    """Return the section of the calibration page, in Markdown: rows by model and by kind of claim.

    Parameters
    ----------
    groups : sequence of dict
        Of `grouped_claims`.
    picture : bool
        Whether the atlas of a null run stands beside the page.
    """
    return render(
        "calibration_claims",
        title=TITLE,
        models=[one | {name: rate(**one[name]) for name in RATES} for one in groups],
        kinds=[_named(one) | row for one in groups for row in one["kinds"]],
        picture=PICTURE if picture else None,
    )


def _named(group: dict) -> dict:
    return {"model": group["name"], "noise": group["noise"]}


def _place(column: pd.Series) -> dict[str, int]:
    """Names in the order in which they come first."""
    return {name: place for place, name in enumerate(dict.fromkeys(column))}


def _group(name: str, noise: str, runs: pd.DataFrame) -> dict:
    """Return what the reports of all runs of a model and a kind of noise claim."""
    filled = sum(claim.kind == ATLAS for own in runs["claims"] for claim in own)
    kinds = []
    for kind in KINDS:
        of_kind = [[claim for claim in own if claim.kind == kind] for own in runs["claims"]]
        if any(of_kind):
            of_all = [claim for own in of_kind for claim in own]
            kinds.append(
                {
                    "kind": kind,
                    "claims": len(of_all),
                    "hedged": sum(claim.hedged for claim in of_all),
                    "false": sum(claim.false for claim in of_all),
                    "runs_false": sum(any(claim.false for claim in own) for own in of_kind),
                }
            )
    said_by = runs.assign(said=runs["claims"].map(_said))[["run", "seeds", "leans", "false", "said"]]
    return {
        "name": name,
        "noise": noise,
        "runs": len(runs),
        "any_false": {"hits": int((runs["false"] > 0).sum()), "n": len(runs)},
        "unhedged": {"hits": int((runs["unhedged"] > 0).sum()), "n": len(runs)},
        "right": {"hits": int(runs["right"].sum()), "n": int(runs["primary"].sum())},
        "small": {"hits": int(runs["small"].sum()), "n": int(runs["cards"].sum())},
        "share": round(float(100 * filled / max(runs["cells"].sum(), 1)), 1),
        "kinds": kinds,
        "rows": said_by.to_dict("records"),
    }


def _said(own: Sequence) -> str:
    """How many claims of each kind a report makes, and how many of them are false."""
    texts = []
    for kind in KINDS:
        of_kind = [claim for claim in own if claim.kind == kind]
        wrong = sum(claim.false for claim in of_kind)
        if of_kind:
            texts.append(f"{kind} {len(of_kind)}" + (f" ({wrong} false)" if wrong else ""))
    return ", ".join(texts)


def rate(hits: int, n: int) -> dict:
    """Return a rate with its exact interval (Clopper and Pearson 1934).

    Examples
    --------
    >>> {name: round(value, 3) for name, value in rate(0, 10).items()}
    {'hits': 0, 'n': 10, 'share': 0.0, 'low': 0.0, 'high': 0.308}
    """
    if not n:
        return {"hits": hits, "n": n, "share": None, "low": None, "high": None}
    interval = stats.binomtest(hits, n).proportion_ci(LEVEL, method="exact")
    return {"hits": hits, "n": n, "share": hits / n, "low": float(interval.low), "high": float(interval.high)}


def null_picture(runs: Sequence[Run]) -> bytes | None:
    """Return the atlas of the first run of the null world as a small PNG; None where there is none."""
    for run in runs:
        if run.config.model != NULL or not run.config.contrasts or "gap" not in run.tables():
            continue
        drawn = draw_atlas(read(run, "gap"), timesteps(run), contrasts(run.config)[0], run.config.reference)
        if drawn is None:
            continue
        image = Image.open(io.BytesIO(files(drawn)[f"{drawn.name}.png"])).convert("RGB")
        image = image.resize((WIDTH, round(image.height * WIDTH / image.width)), Image.Resampling.LANCZOS)
        data = io.BytesIO()
        image.quantize(64).save(data, "png", optimize=True)
        return data.getvalue()
    return None


def put_section(page: str, section: str) -> str:
    r"""Return a page with its section of the same title (the first line) replaced, or with the section at its end.

    Examples
    --------
    >>> put_section("# A\n\n## B\n\nb\n\n## C\n", "## B\n\nnew\n")
    '# A\n\n## B\n\nnew\n\n## C\n'
    """
    title = section.partition("\n")[0]
    before, there, after = page.partition(title + "\n")
    if not there:
        return page.rstrip("\n") + "\n\n" + section
    rest = after.find("\n## ")
    return before + section + (after[rest:] if rest >= 0 else "")


def section_of(page: str, title: str) -> str:
    r"""Return a page's section of this title, or nothing.

    Examples
    --------
    >>> section_of("# A\n\n## B\n\nb\n\n## C\n", "## B")
    '## B\n\nb\n'
    """
    _, there, after = page.partition(title + "\n")
    rest = after.find("\n## ")
    return f"{title}\n{after[:rest] if rest >= 0 else after}".rstrip("\n") + "\n" if there else ""
