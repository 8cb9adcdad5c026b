"""The folders of a run, and what of them a new run, or a stage that is done anew, clears away."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

from probes.errors import UserError
from probes.locks import is_lock
from probes.paths import link_of
from probes.runs import kinds as kinds_recorded
from probes.runs.selection import KINDS
from probes.runs.store import Run

# kinds of parts that observers store; those of features and attributes have a folder for each model
OBSERVED = ("observed", "objects", "features", "attributes")
_NESTED = ("features", "attributes")
_PARTS = ("samples", "captures", "words", "kept", "pooled", *OBSERVED, "traced")
FOLDERS = (*_PARTS, "tables", "figures", "gallery")
# tables that commands beside the stages write
_LATER = (
    *("human_check", "human_nouns", "human_counts", "skills_people"),
    *("gep_labels", "question_labels"),
)
_ALIGNED = tuple(f"alignment_{one}" for one in ("retrieval", "quality", "fid_curve", "captions"))
_BESIDE = tuple(f"tables/{name}.{end}" for name in (*_LATER, *_ALIGNED) for end in ("csv", "parquet"))
_RECORD = ("run.json", "triplets.yaml")


def clear(run: Run) -> None:
    """Remove what a run stored, by its record; say on stderr which files stay, since no run wrote them.

    The record stays until the next run's takes its place: whenever this is cut short, the folder is still a run's.
    """
    _remove(run, [*kinds_recorded.owned(run, _PARTS), *run.written(), *_BESIDE], FOLDERS)
    left = _strangers(run.path)
    if left:
        more = f" and {len(left) - 5} more" if len(left) > 5 else ""
        print(
            f"{run.path}: left as they are, no run wrote them: {', '.join(left[:5])}{more}", file=sys.stderr
        )
    run.meta = {}


def remove(run: Run, kinds: Sequence[str]) -> None:
    """Remove the parts of these kinds that are a run's own by its record, so that they are made anew."""
    _remove(run, kinds_recorded.owned(run, kinds), kinds)
    run.write_meta(**{KINDS: kinds_recorded.without_kinds(run, kinds)})


def _remove(run: Run, names: Sequence[str], folders: Sequence[str]) -> None:
    """Remove files by their paths in a run, and folders that are empty then; nothing where one is reached by a link."""
    for name in (*names, *folders):
        link = link_of(run.path, name)
        if link is not None:
            raise UserError(
                f"{link}: expected a file or folder of the run, got a link: what it leads to is not removed: take the"
                " link away, or choose another --out"
            )
    run.remove_files(names)
    _remove_empty(run, folders)


def with_inner(path: Path, names: Sequence[str]) -> list[str]:
    """Return folders of a run and those in them, the inner ones first."""
    inner = [
        f"{name}/{entry.name}"
        for name in names
        if name in _NESTED and (path / name).is_dir()
        for entry in sorted((path / name).iterdir())
        if entry.is_dir()
    ]
    return [*inner, *names]


def _remove_empty(run: Run, names: Sequence[str]) -> None:
    for name in with_inner(run.path, names):
        with contextlib.suppress(OSError):  # it is not there, or holds files that no run wrote
            (run.path / name).rmdir()


def _strangers(path: Path) -> list[str]:
    """Files and folders that no run writes, by their paths in the folder."""
    names = [
        entry.name
        for entry in path.iterdir()
        if not (entry.name in {*_RECORD, *FOLDERS} or is_lock(entry.name))
    ]
    for folder in FOLDERS:
        if (path / folder).is_dir():
            names += [f"{folder}/{entry.name}" for entry in (path / folder).iterdir()]
    return sorted(names)
