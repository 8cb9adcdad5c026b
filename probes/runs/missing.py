"""Parts that a run lacks, and parts of other images than its samples: named, and never counted as empty.

``run.json`` says which kinds of parts a run has, and how many of each. Parts that this program wrote say in their
metadata what they were made from; of those that another program wrote the rows are compared.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from probes.errors import UserError, printable
from probes.runs.parts import column_names, identity_or_none, part_name, read_part, source_hash
from probes.runs.run import Run
from probes.runs.schemas import GENERATED_KINDS, UNMEASURED, stage_of

_NAMED = 3  # kinds that a line names


def missing_message(run: Run, missing: Mapping[str, Sequence[int]]) -> str:
    """Return a line on a run's missing parts (numbers by kind), with their stages and the command that makes them."""
    stages = dict.fromkeys(stage_of(kind) for kind in missing)
    kinds = sorted(missing, key=lambda kind: (kind != "samples", kind))
    named = [
        f"{kind}/{part_name(missing[kind][0])}"
        + (f" (and {len(missing[kind]) - 1} more)" if len(missing[kind]) > 1 else "")
        for kind in kinds[:_NAMED]
    ]
    more = sum(len(missing[kind]) for kind in kinds[_NAMED:])
    return (
        f"missing {', '.join(named)}{f' and {more:,} of other kinds' if more else ''}"
        f" ({'stages' if len(stages) > 1 else 'stage'} {', '.join(stages)}):"
        f" triptych run {run.path} makes {'it' if sum(map(len, missing.values())) == 1 else 'them'} again"
    )


def open_run(path: str | Path) -> Run:
    """Open the run in a folder and name missing parts on stderr; UserError if its record is absent or damaged."""
    run = Run.open(path)
    _print_missing_parts(run)
    return run


def _print_missing_parts(run: Run) -> None:
    """Print a line that names a run's missing parts on stderr, if there are any."""
    if missing := run.missing():
        print(printable(f"{run.path}: {missing_message(run, missing)}"), file=sys.stderr)


def require_parts(run: Run, stages: Sequence[str] = ("generate", "observe", "trace")) -> None:
    """Raise UserError if a run lacks parts that these stages make, except ``kept`` and ``pooled``."""
    missing = {
        kind: numbers
        for kind, numbers in run.missing().items()
        if stage_of(kind) in stages and kind not in UNMEASURED
    }
    if missing:
        raise UserError(f"{run.path}: expected all parts of the run: {missing_message(run, missing)}")


def require_matching_parts(run: Run) -> None:
    """Raise UserError if a run's parts are missing, or were made from other images than those in ``samples``.

    ``kept`` and ``pooled``, which no table needs, are only named on stderr where missing; they and ``traced`` are not
    compared with the images.
    """
    require_parts(run)
    kinds = [kind for kind in run.planned() if kind not in ("samples", "traced", *UNMEASURED)]
    for samples in run.parts("samples"):
        made_from = identity_or_none(samples) or {}
        for kind in kinds:
            if not (file := run.path / kind / samples.name).exists():
                continue
            identity = identity_or_none(file) or {}
            source, expected = identity.get("hash"), made_from.get("hash")
            if kind not in GENERATED_KINDS:
                source, expected = identity.get("fields", {}).get("samples"), source_hash(made_from)
            if not (source and expected):
                _require_same_rows(run, samples, kind, file)
            elif source != expected:
                same = identity["part"] == made_from["part"]
                raise _mismatch_error(
                    kind, file, samples, "those of others" if same else f"those of part {identity['part']}"
                )
    _print_missing_parts(run)


def _require_same_rows(run: Run, samples: Path, kind: str, file: Path) -> None:
    """Raise UserError if the rows of a part `file` are of other images than those in the part file `samples`."""
    of_images = "sample_id" in column_names(file)
    columns = ["sample_id"] if of_images else ["triplet", "seed"]
    rows, wanted = (
        Counter(zip(*(read_part(one, columns)[name].to_pylist() for name in columns)))
        for one in (file, samples)
    )
    observed = run.path / "observed" / samples.name
    if set(rows) - set(wanted):
        raise _mismatch_error(kind, file, samples, "rows of others")
    if kind != "objects":
        if set(wanted) - set(rows) and (of_images or (kind == "captures" and len(run.config.indicators) > 1)):
            raise _mismatch_error(kind, file, samples, f"rows of {len(rows)} of {len(wanted)}")
    elif observed.exists():
        # an image may have no detection: how many it has is in what was observed
        for row in read_part(observed, ["sample_id", "kept"]).to_pylist():
            if (count := rows[(row["sample_id"],)]) != row["kept"]:
                got = f"{count} of {row['kept']} detections in {row['sample_id']}"
                raise _mismatch_error("objects", file, observed, got)


def _mismatch_error(kind: str, file: Path, samples: Path, got: str) -> UserError:
    """Return the error for a part `file` not made from the part file `samples`; `got` says what it has instead."""
    return UserError(
        f"{file}: expected what belongs to {samples.parent.name}/{samples.name}, got {got}: delete it and run --stage"
        f" {stage_of(kind)} again, only this part is made anew"
    )
