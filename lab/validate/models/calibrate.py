"""Compare the tool with the benchmark models: ``python -m lab.validate.models.calibrate RUN [RUN ...] --out PAGE``.

Each run is one model on the same prompts. The page says what was planted, what the checker finds in the images,
and what the gaps say: their sign, their interval, whether they are more than synonyms differ among
themselves, and how large they are beside those of the null world. In the null world all words mean the same, so that
any of them may play any part: over all ways to give out the parts, both tests of a gap are compared with the rate they
promise. With ``--repeated`` it says what the reports of several runs of each benchmark model claim.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from analysis.study import contrasts
from analysis.tables.registry import read
from lab.validate.models import objects, repeated
from lab.validate.models import scores as models_scores
from lab.validate.models.page import FAMILIES, FEATURES_TITLE, SCORES_TITLE, features_section, head, page
from lab.validate.runs import whole_run
from probes import command_line
from probes.errors import UserError, parse_json
from probes.runs.parts import write_bytes
from probes.runs.run import Run
from probes.toyworld import BENCHMARK_MODELS, WORKING
from probes.toyworld.world import GROUPS


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else head()


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    main = command_line.Parser(
        prog="python -m lab.validate.models.calibrate", description=__doc__.split("\n\n")[0]
    )
    main.add_argument(
        "runs", nargs="*", type=command_line.run_directory, help="run directories, one a benchmark model"
    )
    main.add_argument(
        "--repeated",
        nargs="+",
        type=command_line.run_directory,
        default=[],
        metavar="RUN",
        help="runs of the benchmark models that differ in their seeds: what do their reports claim, and what of it is "
        "false? Alone, only these sections of the page are written anew; rows of other models and noise stay as "
        "PAGE_claims.json has them",
    )
    main.add_argument(
        "--features",
        nargs="+",
        type=command_line.run_directory,
        default=[],
        metavar="RUN",
        help="runs of the benchmark models, one each: only the section on gaps by features is written anew",
    )
    main.add_argument(
        "--scores",
        nargs="+",
        action="append",
        type=Path,
        default=[],
        metavar=("RUN", "SAMPLE"),
        help="a run, and a file of lab.train.base.independent to hold its bias scores against; or a run alone, to say "
        "in how many objects its words differ; without it the page keeps the section that it has",
    )
    main.add_argument(
        "--out", type=Path, default=Path("docs/validation/calibration.md"), help="page to write"
    )
    return main


def work(options: argparse.Namespace) -> None:
    """Do what the command line asks."""
    for paths in options.scores:
        if len(paths) > 2:
            raise UserError(
                f"--scores: expected a run and at most one sample, got {len(paths)} paths: give it again"
            )
    if not (options.runs or options.repeated or options.features):
        raise UserError(
            "command line: expected run directories, or --repeated or --features with some: name one"
        )
    command_line.writable(options.out)
    runs, seen = ([benchmark_run(path) for path in paths] for paths in (options.runs, options.features))
    again = [repeated_run(path) for path in options.repeated]
    scores = [models_scores.paired(benchmark_run(run), *sample) for run, *sample in options.scores]
    before = _read(options.out)
    text = page(runs, scores) if runs else before
    kept = repeated.section_of(before, SCORES_TITLE)
    if runs and not scores and kept:
        text = repeated.put_section(text, kept)
    by_features = repeated.section_of(before, FEATURES_TITLE)
    if runs and by_features and not seen:
        text = repeated.put_section(text, by_features)
    if seen:
        text = repeated.put_section(text, features_section(seen))
    if again:
        text = _with_claims(text, again, options.out)
    write_bytes(options.out, text.encode())
    print(options.out)


def _with_claims(text: str, runs: Sequence[Run], out: Path) -> str:
    """The page with the sections on claims and on objects from what is stored beside it and these runs."""
    file = stored_claims(out)
    stored = parse_json(file.read_text(encoding="utf-8")) if file.is_file() else {"claims": [], "objects": []}
    observed = [run.path for run in runs if run.config.model in BENCHMARK_MODELS and run.parts("objects")]
    claims = {(row["name"], row["noise"]): row for row in [*stored["claims"], *repeated.grouped_claims(runs)]}
    found = {row["model"]: row for row in stored["objects"]}
    found |= {row["model"]: row for row in objects.page_rows(observed)} if observed else {}
    stored = {"claims": list(claims.values()), "objects": list(found.values())}
    write_bytes(file, (json.dumps(stored, indent=1, ensure_ascii=False) + "\n").encode())
    return claims_sections(text, stored)


def stored_claims(out: Path) -> Path:
    """The file in which the claims of a page's runs are kept."""
    return out.with_name(f"{out.stem}_claims.json")


def claims_sections(text: str, stored: dict) -> str:
    """A page with its sections on claims and on objects made from what is stored."""
    text = repeated.put_section(text, repeated.claims_section(stored["claims"]))
    return repeated.put_section(text, objects.page_section(stored["objects"])) if stored["objects"] else text


def repeated_run(path: Path) -> Run:
    """A measured run of a model whose words have planted frequencies, of whatever method; else a UserError."""
    run = whole_run(path)
    if run.config.model not in (*BENCHMARK_MODELS, *WORKING):
        raise UserError(
            f"{path}: expected a run of a benchmark model ({', '.join((*BENCHMARK_MODELS, *WORKING))}), got one of "
            f"{run.config.model}: name another run"
        )
    if not run.tables():
        raise UserError(f"{path}: expected a measured run, got one without tables: run its stage measure")
    return run


def benchmark_run(path: Path) -> Run:
    """A measured run of a benchmark model with the indicators of the toy world; else a UserError."""
    run = whole_run(path)
    models = [model for family in FAMILIES for model in family]
    if run.config.model not in models:
        raise UserError(
            f"{path}: expected a run of a benchmark model ({', '.join(models)}), got one of "
            f"{run.config.model}: "
            "name another run"
        )
    missing = [name for name in GROUPS if name not in run.config.indicators]
    if missing or ("masculine", "feminine") not in contrasts(run.config):
        lacking = f"the indicator {missing[0]}" if missing else "the contrast [masculine, feminine]"
        raise UserError(
            f"{path}: expected a run of docs/validation/calibration.yaml, got one without {lacking}: name another run"
        )
    read(run, "gap")
    return run


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    return command_line.run(work, parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
