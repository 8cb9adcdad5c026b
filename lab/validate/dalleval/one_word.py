"""Audits of one word compared with planted leans: ``python -m lab.validate.dalleval.one_word --work FOLDER``.

Runs without triplets, as a user makes them: *a person who works as a ...* alone, on `toyworld-work`, read by the
checker. Their table ``dalleval_professions``, and `triptych audit` over the same pictures exported with the answers as
labels, each give shares with intervals. The numbers are put into the JSON file beside the page, and the page is written
anew.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

import triptych
from lab.train.work.captions import works_as
from lab.train.work.measure import verdict_rates
from lab.validate.dalleval.answers import shares_together
from lab.validate.dalleval.page import page
from probes import command_line
from probes.errors import UserError
from probes.runs.parts import write_bytes
from probes.toyworld import WORK
from probes.toyworld.world import load_world

WORD = "person"
READER = "toyworld-checker"
FIRST_SEED, AUDITS = 800_000, 3


def configuration(images: int, steps: int, first_seed: int) -> dict[str, Any]:
    """Return that of a run without triplets: a text for each profession, and nothing that needs two words."""
    professions = load_world(WORK).professions
    return {
        "model": WORK,
        "prompts": [{"text": works_as(WORD, name), "profession": name} for name in professions],
        "seeds": {"count": images, "start": first_seed},
        "sampler": {"steps": steps},
        "capture": {"sites": ["image"], "words": False},
        "observe": {"objects": False, "features": [], "questions": {"readers": [READER]}},
        "measure": {"bootstrap": 50, "permutations": 64},
        "generate": {"workers": 1, "device": "cpu"},
    }


def of_table(run: triptych.LoadedRun) -> pd.DataFrame:
    """Return the shares read as male of a run's own table, with their intervals, by profession."""
    table = run.table("dalleval_professions")
    own = table[(table["question"] == "gender") & (table["source"] == READER)].set_index("profession")
    shares = {"share": own["average"], "low": own["high"], "high": own["low"]}
    return pd.DataFrame({name: (1 - average) / 2 for name, average in shares.items()})


def of_audit(run: triptych.LoadedRun, folder: Path) -> pd.DataFrame:
    """Return the same of `triptych audit`, of the run's pictures, exported, with its answers as labels."""
    if not folder.exists():
        run.export("imagefolder", folder)
    labels = run.answers("gender")
    labels = labels[labels["reader"] == READER].merge(run.samples[["sample_id", "triplet", "prompt"]])
    labels = labels.merge(run.table("prompts")[["triplet", "profession"]])
    labels = labels.assign(file="train/" + labels["sample_id"] + ".png", label=labels["reading"])
    found = triptych.audit(folder, labels.drop(columns="answer"), answer="male", permutations=100)
    return found.shares.set_index("profession")[["share", "low", "high", "count", "decided", "pictures"]]


def held(shares: pd.DataFrame, rates: Mapping[str, float]) -> list[str]:
    """Return the professions whose interval holds the share that the planted lean gives.

    Parameters
    ----------
    shares : DataFrame
        By profession: ``low`` and ``high``.
    rates : mapping of str to float
        How often the checker reads component *b* where it is, and where it is not: ``b`` and ``a``
        (`lab.train.work.measure.verdict_rates`).
    """
    planted = {name: one.lean for name, one in load_world(WORK).professions.items()}
    chances = {name: rates["a"] + (rates["b"] - rates["a"]) * lean for name, lean in planted.items()}
    rows = shares.loc[list(chances)].assign(chance=list(chances.values()))
    return list(rows.index[(rows["low"] <= rows["chance"]) & (rows["chance"] <= rows["high"])])


def measured(images: int, steps: int, first_seed: int, audits: int, folder: Path) -> dict[str, Any]:
    """Return the professions whose intervals hold, audit by audit, by the run's own table and by `triptych audit`.

    Parameters
    ----------
    images, steps, first_seed, audits : int
        Images a profession, their steps, the first seed of the first audit; each audit takes the next ones.
    folder : pathlib.Path
        For the runs; one that is there is taken up again.
    """
    rates = verdict_rates(load_world(WORK))
    tables, labelled = [], []
    for number in range(audits):
        asked = configuration(images, steps, first_seed + number * images)
        run = triptych.run(asked, out=folder / f"audit-{number}", progress=False)
        tables.append(of_table(run))
        labelled.append(of_audit(run, folder / f"pictures-{number}"))
    counts = sum(one[["count", "pictures"]] for one in labelled)
    leans = [load_world(WORK).professions[name].lean for name in counts.index]
    return {
        "images": images,
        "steps": steps,
        "first_seed": first_seed,
        "undecided": int(sum((one["pictures"] - one["decided"]).sum() for one in labelled)),
        "table": [held(one, rates) for one in tables],
        "labelled": [held(one, rates) for one in labelled],
        "together": shares_together(counts["count"] / counts["pictures"], counts["pictures"], leans, rates),
    }


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.validate.dalleval.one_word", description=__doc__.split("\n\n")[0]
    )
    add = main.add_argument
    add("--images", type=command_line.count, default=48, help="a profession")
    add("--audits", type=command_line.count, default=AUDITS, help="each with noises of its own")
    add("--steps", type=command_line.whole(1, 1000), default=20)
    add("--seed", type=command_line.seed, default=FIRST_SEED, help="of the first image of a profession")
    add("--work", type=Path, default=Path("one_word"), help="folder of the runs, taken up again if there")
    add("--page", type=Path, default=Path("docs/validation/dalleval_answers.md"), help="page to write anew")
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    stored = options.page.with_suffix(".json")
    if not stored.is_file():
        raise UserError(
            f"--page: expected {stored} beside it, found none: make it with lab.validate.dalleval"
        )
    command_line.writable(options.page)
    result = json.loads(stored.read_text("utf-8"))
    result["one_word"] = measured(options.images, options.steps, options.seed, options.audits, options.work)
    write_bytes(stored, (json.dumps(result, indent=1) + "\n").encode())
    write_bytes(options.page, page(result).encode())
    print(options.page)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
