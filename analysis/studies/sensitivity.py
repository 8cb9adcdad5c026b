"""What of a run's findings hangs on a choice? ``python -m analysis sensitivity RUN``.

Each choice is moved over a stated range, everything else as in the run, and every finding is computed anew:

- gaps of the headline metrics: the readout of prompt space, each seed alone and each left out, and the seed of
  resamples and sign flips; and the gap over words with each word left out, the indicators' own among them
  (`analysis.tables.specifications`);
- presence of objects (part of the images, first less second indicator of a contrast), by dependency group and object:
  the detector's score threshold, whose masks guide (the prompt's nouns or every word), which words refer to humans (the
  paper's six and the run's, or the long list), θ of the word masks, σ and σ for humans; each with the number of
  detections that it puts into another group.

Writes ``tables/sensitivity`` and prints what changes its sign, or whether its interval or test speaks of a difference.
A choice that the run leaves no room for (one seed, no objects) is left out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.metrics.registry import headline_metrics
from analysis.report.format import interval, number, p_value
from analysis.studies.object_sensitivity import (
    LEAST_SCORES,
    SIGMAS,
    SIGMAS_HUMAN,
    THETAS,
    object_settings,
)
from analysis.study import contrasts, indicators
from analysis.tables.disparity import gap, shares_noise
from analysis.tables.registry import TABLES, write
from analysis.tables.similarities import Similarities
from analysis.tables.specifications import AS_RUN, READOUTS, specifications
from analysis.tables.stored_similarities import StoredSimilarities
from probes import command_line
from probes.errors import UserError
from probes.store import Run

COLUMNS = TABLES["sensitivity"].columns
DRAWS = (0, 1, 2)  # seeds of resamples and sign flips


def sensitivity(run: Run, **ranges: Sequence[float]) -> pd.DataFrame:
    """Compute every finding under every setting.

    Parameters
    ----------
    run : Run
        A measured run; ``objects/`` may be missing.
    **ranges : sequence of float
        ``thetas``, ``sigmas``, ``sigmas_human``, ``least_scores`` over those of `analysis.studies.object_sensitivity`.

    Returns
    -------
    DataFrame
        A row a setting and quantity, with `COLUMNS`. ``of_run`` marks the run's own setting; ``changes`` says what is
        other than there: *sign* of the value, *interval* (it leaves out 0 in one of the two only), *words* (more than
        these words differ among themselves in one of the two only).

    Raises
    ------
    UserError
        If the run is not measured, or nothing of it is held against anything else.
    """
    if not contrasts(run.config):
        raise UserError(
            f"{run.path}: expected a contrast whose findings can change, got `contrasts: []`: "
            "name two indicators under `contrasts` and measure again"
        )
    rows = [*_gap_settings(run)]
    if run.parts("objects"):
        rows += object_settings(run, **ranges)
    if not rows:
        raise UserError(
            f"{run.path}: expected a headline metric to move a choice of, found none: see capture.sites"
        )
    table = pd.concat([frame.assign(choice=choice, setting=str(setting), of_run=of_run)
                       for choice, setting, of_run, frame in rows], ignore_index=True)  # fmt: skip
    table["p_control"] = table.get("p_control", np.nan)
    table["changes"] = _changes(table, 1 - run.config.measure.level)
    return table[list(COLUMNS)]


Setting = tuple[str, object, bool, pd.DataFrame]


def _gap_settings(run: Run) -> Iterator[Setting]:
    """Gaps of the headline metrics under every setting that the run leaves room for."""
    config, pairs = run.config, StoredSimilarities(run)
    readout = config.measure.text_readout
    known = {(m.space, m.site, m.metric): m.symbol for name in READOUTS for m in headline_metrics(name)}
    pairs = pairs.only(known)
    others = [f"cosine_{name}" for name in READOUTS if name != readout]
    main = pairs.select(lambda space, site, metric: metric not in others)
    controls = {member.name: member.control for member in indicators(config) if member.control}
    if not pairs.keys or not contrasts(config):
        return

    def gaps(own: Similarities, **options: int) -> pd.DataFrame:
        sampling = {"level": config.measure.level, "resamples": config.measure.bootstrap}
        table = gap(
            own,
            indicators=[member.name for member in indicators(config)],
            reference=config.reference,
            contrasts=contrasts(config),
            controls=controls,
            permutations=config.measure.permutations,
            shared_noise=shares_noise(config),
            **{"seed": config.measure.seed} | sampling | options,
        )
        named = [known[key] for key in zip(table["space"], table["site"], table["metric"])]
        return table.assign(kind="gap", what=table["contrast"], quantity=named, value=table["gap"])

    seeds = main.seeds
    for name in READOUTS:
        own = pairs.select(lambda space, site, metric: metric == f"cosine_{name}")  # noqa: B023
        if own.keys:
            yield "readout of prompt space", name, name == readout, gaps(own)
    if len(seeds) > 1:
        yield "seeds", "all", True, gaps(main)
        for seed in seeds:
            yield "seeds", f"{seed} alone", False, gaps(main.select(seeds=[seed]))
        for seed in seeds if len(seeds) > 2 else ():
            yield (
                "seeds",
                f"without {seed}",
                False,
                gaps(main.select(seeds=[other for other in seeds if other != seed])),
            )
    if controls:
        table = specifications(
            pairs,
            indicators={member.name: member.word for member in indicators(config)},
            reference=config.reference,
            contrasts=contrasts(config),
            controls=controls,
            text_readout=readout,
            level=config.measure.level,
            fewest=1,
            shared_noise=shares_noise(config),
        )
        named = [known[key] for key in zip(table["space"], table["site"], table["metric"])]
        table = table.assign(kind="gap", what=table["contrast"], quantity=named, value=table["gap"])
        table = table.rename(columns={"low": "ci_low", "high": "ci_high"}).drop(columns=["gap", "of_run"])
        left = [AS_RUN, *(name for name in table["specification"].unique() if name.startswith("without “"))]
        for name in left:
            yield "words", name, name == AS_RUN, table[table["specification"] == name]
    for draw in dict.fromkeys((config.measure.seed, *DRAWS)):
        yield "resamples", f"seed {draw}", draw == config.measure.seed, gaps(main, seed=draw)


def _changes(table: pd.DataFrame, alpha: float) -> list[str]:
    """What of each row is other than under the run's own setting of the same choice."""
    key = ["choice", "kind", "what", "quantity"]
    state = pd.DataFrame({
        "sign": np.sign(table["value"].fillna(0.0)),
        "interval": (table["ci_low"] > 0) | (table["ci_high"] < 0),
        "words": table["p_control"] < alpha,
    })  # fmt: skip
    own = table[table["of_run"]].drop_duplicates(key)
    base = state.loc[own.index].set_index(pd.MultiIndex.from_frame(own[key]))
    found = base.reindex(pd.MultiIndex.from_frame(table[key]))
    known = (
        found["sign"].notna().to_numpy() & (table["kind"] != "groups").to_numpy()
    )  # a count has no sign to change
    parts = {
        name: known & (found[name].to_numpy() != state[name].to_numpy())
        for name in ("sign", "interval", "words")
    }
    return [", ".join(name for name in parts if parts[name][row]) for row in range(len(table))]


def summary(table: pd.DataFrame) -> str:
    """What changes, a line a choice and finding."""
    lines = []
    for choice, own in table.groupby("choice", sort=False):
        settings = list(dict.fromkeys(own["setting"]))
        other = own[own["changes"] != ""]
        groups = own[(own["kind"] == "groups") & ~own["of_run"]]
        findings = own.loc[own["kind"] != "groups", ["kind", "what", "quantity"]].drop_duplicates()
        lines.append(
            f"{choice} ({', '.join(settings)}): {len(other)} of {(~own['of_run']).sum() - len(groups)} values change, "
            f"{len(findings)} findings"
        )
        for row in groups.to_dict("records"):
            lines.append(f"  {row['setting']}: {row['value']:.0f} {row['reason']} are {row['quantity']}")
        for row in other.to_dict("records"):
            value = f"{number(row['value'], signed=True)} {interval(row['ci_low'], row['ci_high'])}"
            words = (
                f", against words {p_value(row['p_control'])}" if row["p_control"] == row["p_control"] else ""
            )
            lines.append(
                f"  {row['setting']}: {row['what']}, {row['quantity']}: {row['changes']}; {value}{words}"
            )
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m analysis sensitivity",
        description="Move every choice of a run over a range, and say which findings change.",
    )
    main.add_argument("run", type=Path, help="a measured run directory")
    for flag, values, what in (
        ("--thetas", THETAS, "thresholds of the word masks"),
        ("--sigmas", SIGMAS, "coverage from which a word guides an object"),
        ("--sigmas-human", SIGMAS_HUMAN, "the same where both refer to humans"),
        ("--least-scores", LEAST_SCORES, "detector scores below which an object is left out"),
    ):
        text = f"{what} (default: {values})"
        main.add_argument(flag, type=command_line.share, nargs="+", default=values, help=text)
    return main


def work(arguments: argparse.Namespace) -> None:
    """Do what the command line asks."""
    options = vars(arguments)
    run = Run.open(options.pop("run"))
    table = sensitivity(run, **options)
    write(run, "sensitivity", table)
    print(summary(table))
    print(f"table: {run.path / 'tables' / 'sensitivity.csv'}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
