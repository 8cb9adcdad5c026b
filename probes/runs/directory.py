"""Work on a run directory: who works on it (`probes.locks`), records of stages, removal of results."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from probes import locks
from probes.config.schema import Config
from probes.errors import UserError
from probes.paths import display_name, outermost_link
from probes.runs.missing import require_parts
from probes.runs.parts import disk_error, is_leftover, part_name, write_bytes
from probes.runs.record import (
    KINDS,
    STATUSES,
    fields_altering,
    generated_fields,
    measured_fields,
    merge_later_fields,
    traced_fields,
)
from probes.runs.run import Run
from probes.runs.schemas import FOLDERS

CAPTIONS = "captions.csv"  # what was replaced in each caption of a file, or why it was left out
DAY = 86_400.0  # seconds: no file takes so long to write, and no two clocks of a cluster differ by so much


@contextlib.contextmanager
def claim(path: Path, *, alone: bool = False) -> Iterator[Run]:
    """Yield the run of a folder, created if missing, to work on `alone` or beside other processes; else UserError."""
    created = [folder for folder in (path, *path.parents) if not folder.exists()]
    with contextlib.ExitStack() as stack:
        stack.callback(_remove_new_folders, path, created)
        try:
            _require_run_folder(path)
            path.mkdir(parents=True, exist_ok=True)
            with locks.locked(path / locks.GATE):
                _register_process(path, alone, stack)
        except OSError as error:
            raise disk_error(path, error) from None
        try:
            yield Run.open(path) if (path / "run.json").exists() else Run(path, {})
            locks.require_not_removed(path)
        except Exception as error:
            if not isinstance(error, locks.RemovedRunError):  # which tells the reason of any other
                locks.require_not_removed(path)
            raise


def _register_process(path: Path, alone: bool, stack: contextlib.ExitStack) -> None:
    """Mark a run as in use until `stack` closes, and clean up; UserError if this or another process needs it alone."""
    others = [holder for file in sorted(path.iterdir()) if (holder := locks.lock_holder(file))]
    if others and (alone or others[0]["how"] == "alone"):
        who = f"process {others[0]['process']} on {others[0]['host']}"
        expected = "the only one writing here" if alone else "one of several writing here"
        found = "another process" if alone else "another process that replaces what is here"
        raise UserError(f"{path}: expected to be {expected}, found {found} ({who}): let it end first")
    host = re.sub(r"[^\w.-]", "_", socket.gethostname())[:64] or "_"
    how = "alone" if alone else "work"
    mine = path / f"{locks.GATE}-{how}-{host}-{os.getpid()}-{secrets.token_hex(4)}"
    mine.touch()
    stack.enter_context(locks.locked(mine, remove=True))
    held = locks.file_lock(mine).is_locked
    locks.WORKING[mine] = path
    stack.callback(locks.WORKING.pop, mine)
    if not held:
        line = (
            f"{path}: this file system has no locks, nothing keeps a second process from replacing what is here: see to"
            " it that none does"
        )
        print(line, file=sys.stderr)
    # what interrupted writers left; where others may be writing, what is old
    oldest = time.time() - (DAY if others or not held else -DAY)
    for file in path.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # another has removed it
            if is_leftover(file.name) and file.stat().st_mtime < oldest:
                file.unlink()
            elif file.name.endswith(".parquet.lock"):
                locks.remove_stale_lock(file)


def _require_run_folder(path: Path) -> None:
    """Raise a `UserError` if a folder holds files but no run, before anything in it is changed."""
    names = sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []
    others = [name for name in names if not (locks.is_lock(name) or is_leftover(name))]
    if others and not (path / "run.json").exists():  # another process may have created it since
        raise UserError(
            f"{path}: expected an empty folder or a run, got other files ({others[0]}): choose another --out"
        )
    if others:
        Run.open(path)  # what it says when the record cannot be read is right with --overwrite too


def _remove_new_folders(path: Path, created: list[Path]) -> None:
    """Remove the folders that were created for a run, if they hold nothing but a lock."""
    with contextlib.suppress(OSError):
        if created and [entry.name for entry in path.iterdir()] == [locks.GATE]:
            locks.remove_stale_lock(path / locks.GATE)
        for folder in created:
            folder.rmdir()


def now() -> str:
    """Return the current time in UTC as ISO 8601 text, in whole seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def require_same(
    run: Run, resolved: Mapping[str, Any], *, observe_again: bool = False, trace_again: bool = False
) -> None:
    """Raise UserError if a resolved configuration differs from a run's in a field that alters what it has stored.

    A value that is not resolved yet (``auto``, ``null``: the model's default) equals any.
    """
    if not run.meta:
        return
    both = run.resolved, resolved
    _require_same_fields(run, *map(generated_fields, both))
    if run.parts("observed") and not observe_again:
        _require_same_fields(run, *(fields_altering(one, "observe") for one in both))
    if run.parts("traced") and resolved.get("trace") and not trace_again:
        _require_same_fields(run, (run.meta.get("trace") or {}).get("fields", {}), traced_fields(resolved))


def _require_same_fields(
    run: Run, before: Mapping[str, Any], after: Mapping[str, Any], *, remedy: str = "", resolved: bool = False
) -> None:
    """Raise UserError for the first field of `after` with another value in `before`; fields not in it are skipped.

    An unresolved value (None, "auto") of a section equals any; with `resolved` only one of `after` does.
    """
    for name, new in after.items():
        old = before.get(name, new)
        section = name.startswith(("sampler.", "generate.", "observe.", "trace."))
        left_open = section and any(value in (None, "auto") for value in ((new,) if resolved else (old, new)))
        if old != new and not left_open:
            raise another_run_error(run, name, old, new, remedy)


def pinned_revision(config: Config) -> str | None:
    """Return the hub commit of the model that a configuration's run began with; None without a run of this model.

    A run that is resumed uses this commit, even if the branch has moved since.
    """
    if not (config.out_path / "run.json").exists():
        return None
    model = Run.open(config.out_path).meta.get("model") or {}
    same = model.get("kind") == "hub" and model.get("id") == config.model and "@" not in config.model
    return model.get("revision") if same else None


def another_run_error(run: Run, field: str, old: Any, new: Any, remedy: str = "") -> UserError:
    """Return the error for a run that has an `old` value of a field, where a `new` one is requested."""
    if isinstance(old, list) and isinstance(new, list):
        index = next((i for i, (a, b) in enumerate(zip(old, new)) if a != b), min(len(old), len(new)))
        field = f"{field}[{index}]"
        old, new = (values[index] if index < len(values) else "nothing" for values in (old, new))
    old, new = (repr(value) if len(repr(value)) < 80 else repr(value)[:76] + "..." for value in (old, new))
    again = {
        "observe": "--stage observe --overwrite to observe its images anew,",
        "trace": "--stage trace --overwrite to trace it anew,",
    }.get(field.partition(".")[0], "--overwrite to replace it")
    remedy = remedy or f"use {again} or another --out"
    return UserError(f"{run.path}: holds another run: {field} is {old} there, expected {new}: {remedy}")


def part_of_another_run_error(run: Run, path: Path, field: str, old: Any, new: Any) -> UserError:
    """Return the error for a part file made with an `old` value of a field, where a `new` one is requested."""
    return UserError(f"{path.name} of {another_run_error(run, field, old, new)}")


def _times_until(run: Run, status: str) -> dict[str, Any]:
    """Return a run's recorded times and durations, without those of stages after `status`, which will run again."""
    times = run.meta.get("times", {})
    later = STATUSES[STATUSES.index(status) + 1 :]
    took = {name: value for name, value in times.get("seconds", {}).items() if name not in later}
    kept = {name: value for name, value in times.items() if name not in (*later, "seconds")}
    return kept | ({"seconds": took} if took else {})


def prepare_stage(run: Run, config: Config, stage: str, passed: Mapping[str, Any], yaml_text: str) -> None:
    """Record a later stage's configuration (as passed, and as YAML) in a run; UserError if for other images."""
    status = run.status if run.meta else "empty"
    if not run.meta or not run.parts("samples"):
        raise UserError(
            f"{run.path}: expected a generated run, found it {status}"
            + (", without images" if status not in ("empty", "planned") else "")
            + ": run --stage generate first"
        )
    before, after = run.resolved, config.resolved()
    sides = [
        {"model": display_name(side.get("model") or ""), **generated_fields(side)} for side in (before, after)
    ]
    _require_same_fields(run, *sides, resolved=True)
    if stage == "report":
        if STATUSES.index(run.status) < STATUSES.index("measured"):
            raise UserError(
                f"{run.path}: expected a measured run, found it {run.status}: run --stage measure first"
            )
        _require_same_fields(
            run, measured_fields(before), measured_fields(after), remedy="run --stage measure first"
        )
        status = "measured"
    else:
        status = "observed" if stage != "observe" and run.parts("observed") else "generated"
    require_parts(run, ["generate", *(("observe", "trace") if stage in ("measure", "report") else ())])
    sections = {"sampler", "capture", "generate", "out", "observe", "trace"} & before.keys() - {stage}
    kept = {name: merge_later_fields(name, before[name], after[name]) for name in sections}
    run.write_meta(
        status=status,
        name=config.name,
        config={"passed": dict(passed), "resolved": {**after, **kept}},
        times=_times_until(run, status),
    )
    if yaml_text:
        write_bytes(run.path / "triplets.yaml", yaml_text.encode())


def record_stage(run: Run, status: str, seconds: float, **fields: Any) -> None:
    """Record in ``run.json`` that a stage is done: `status`, time, duration in seconds, and other fields."""
    times = _times_until(run, status)
    took = {**times.get("seconds", {}), status: round(seconds, 1)}
    run.write_meta(**fields, status=status, times={**times, status: now(), "seconds": took})


def clear(run: Run) -> None:
    """Remove all files that a run has written, except its record; name files that are not the run's on stderr.

    The record is replaced by that of the next run: if this is interrupted, the folder is still a run's.
    """
    _remove_recorded(run, FOLDERS, run.written())
    known = {"run.json", "triplets.yaml", CAPTIONS, *FOLDERS}
    left = [
        entry for entry in run.path.iterdir() if entry.name not in known and not locks.is_lock(entry.name)
    ]
    left += [entry for folder in FOLDERS for entry in (run.path / folder).glob("*")]
    if left:
        names = sorted(entry.relative_to(run.path).as_posix() for entry in left)
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        print(
            f"{run.path}: left as they are, no run wrote them: {', '.join(names[:5])}{more}", file=sys.stderr
        )
    run.meta = {}


def remove_parts(run: Run, kinds: Sequence[str]) -> None:
    """Remove a run's parts of these kinds, such as "traced", and their counts in its record."""
    gone = _remove_recorded(run, kinds)
    run.write_meta(**{KINDS: {kind: count for kind, count in run.planned().items() if kind not in gone}})


def _remove_recorded(run: Run, folders: Sequence[str], others: Sequence[str] = ()) -> set[str]:
    """Remove recorded parts in some folders, `others` by path, and folders then empty; return the kinds of parts.

    UserError, and nothing is removed, if one of them is reached by a link.
    """
    counts = {kind: count for kind, count in run.planned().items() if kind.partition("/")[0] in folders}
    # of texts there is one part, whatever the images
    counts |= {f"{kind}{end}": 1 for kind in counts if "/" in kind for end in ("_texts", "_prompts")}
    parts = (f"{kind}/{part_name(number)}" for kind, count in counts.items() for number in range(count))
    names = [*parts, *others]
    for name in (*names, *folders):
        link = outermost_link(run.path, name)
        if link is not None:
            raise UserError(
                f"{link}: expected a file or folder of the run, got a link: what it leads to is not removed: take the"
                " link away, or choose another --out"
            )
    run.remove_files(names)
    for name in (*counts, *folders):
        with contextlib.suppress(OSError):  # it is not there, or holds files that no run wrote
            (run.path / name).rmdir()
    return {*counts}
