"""Several processes on one run directory, on whatever hosts: each has a static shard of the parts (``--shard I/N``).

Part number *p* belongs to shard *p* modulo *N*. A process with a shard holds the directory together with the others
(`probes.storage.claim`), writes its own parts and a record of its own, ``shards/HOST-PID-RANDOM.json``: what it wrote
is in no other process's way, and no two can lose each other's notes. ``run.json`` is written by the process that
begins, and again by who has the run alone or its results (`merged_record`): the last one out, or ``--stage measure``.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import secrets
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probes.errors import UserError
from probes.execution.part import Part
from probes.json_text import parse_json
from probes.runs import completeness, recorded_files
from probes.runs.directory import now
from probes.runs.folders import SHARDS
from probes.runs.parts import create_bytes, is_leftover, write_bytes
from probes.runs.record import read_record, record_bytes
from probes.runs.selection import KEY, KINDS, number
from probes.runs.store import Run
from probes.storage.locks import FolderHold, Hold

BEGUN = "part_fields"  # of run.json: what it is drawn from is settled
STAGES = ("generate", "observe", "trace")  # of which a shard does its share
SIZES = ("batch_triplets", "trace_batch")
# of run.json, the same for all who draw: written by the process that begins
_OF_RUN = (
    *("format", "status", "name", "config", "versions", "captions", "model", "scheduler", BEGUN, "parts"),
    *("images", "faults", "written", "times", KEY, SHARDS),
)
_PATIENCE = 600.0  # seconds that another process may take to begin a run, which is to write a file
_SHARD = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")


@dataclass(frozen=True)
class Shard:
    """One of several shares of a run's parts."""

    index: int  # from 0 to `count - 1`
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """The shard that a text such as ``3/16`` names."""
        found = _SHARD.fullmatch(text)
        shard = cls(*map(int, found.groups())) if found else None
        if shard is None or shard.index >= shard.count:
            raise UserError(
                f"--shard: expected I/N with I from 0 to N - 1, such as 0/16 to 15/16, got {text!r}: number the jobs"
                " of an array from 0"
            )
        return shard

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def holds(self, part: int) -> bool:
        """Return whether a part, by its number, is of this shard."""
        return part % self.count == self.index


class SharedRun(Run):
    """A run directory that is shared with others: of its parts those of a shard, and a record of its own."""

    def __init__(self, run: Run, shard: Shard):
        super().__init__(run.path, {})
        self.shard = shard
        host = re.sub(r"\W", "_", socket.gethostname())
        self._record: dict[str, Any] = {
            "id": f"{host[:32]}-{os.getpid()}-{secrets.token_hex(4)}",
            "shard": str(shard),
            "host": socket.gethostname(),
            "began": now(),
            "seconds": {},
            "fields": {},
        }
        self.read()

    def read(self) -> None:
        """Read what is settled and noted of the run by now."""
        file = self.path / "run.json"
        there = read_record(file) if file.exists() else {}
        self.meta = merged_record(there, list(_records(self.path)))
        self.meta.pop(KEY, None)  # what was measured is no matter to who draws
        # what is noted of times is this process's own
        if trace := self.meta.get("trace"):
            self.meta["trace"] = {**trace, "seconds": 0.0}
        if times := self.meta.get("times"):
            self.meta["times"] = {name: value for name, value in times.items() if name != "seconds"}

    def parts(self, kind: str) -> list[Path]:
        """The parts of a kind that are there and of this shard, in order."""
        return [file for file in super().parts(kind) if self.shard.holds(number(file))]

    def write_meta(self, **fields: Any) -> None:
        """Note fields in the record of this process; where the run has not begun, begin it with them."""
        if BEGUN not in self.meta and BEGUN in fields:
            self._begin(fields)
        noted = self._record["fields"]
        if "config" in fields:
            noted["observe"] = fields["config"]["resolved"]["observe"]
        noted |= {name: value for name, value in fields.items() if name not in _OF_RUN}
        self._record["seconds"] |= (fields.get("times") or {}).get("seconds", {})
        self.meta = {**self.meta, **recorded_files.as_read(fields, self.path)}
        record = {**self._record, "fields": recorded_files.written_record(noted, self.path)}
        text = json.dumps(record, indent=2, ensure_ascii=False)
        write_bytes(self.path / SHARDS / f"{self._record['id']}.json", f"{text}\n".encode())

    def _begin(self, fields: Mapping[str, Any]) -> None:
        """Write ``run.json``, unless another process has, which can be where there are no locks (`startup_lock`)."""
        if (self.path / "run.json").exists():
            Run(self.path, self.meta).write_meta(**fields)  # of what was planned
        elif not create_bytes(self.path / "run.json", record_bytes(fields, self.path)):
            raise UserError(
                f"{self.path}: another process has begun this run at the same moment: run it again"
            )


@contextlib.contextmanager
def startup_lock(run: Run) -> Iterator[None]:
    """Settle what a run is drawn from and write it down, while no other shard does: the first one in.

    Those that come later find it settled.
    """
    if not isinstance(run, SharedRun) or BEGUN in run.meta:
        yield
        return
    with contextlib.ExitStack() as stack:
        lock = stack.enter_context(contextlib.closing(FolderHold(run.path, Hold.RESULTS)))
        until = time.monotonic() + _PATIENCE
        while not lock.taken():
            if time.monotonic() > until:
                raise UserError(
                    f"{run.path}: expected another shard to write run.json, found it waiting for {_PATIENCE:.0f} s:"
                    " look at that one"
                )
            time.sleep(0.05)
        run.read()
        if BEGUN in run.meta:
            stack.close()
        yield


def parse_shard(text: str | None, stage: str | None, *, overwrite: bool) -> Shard | None:
    """The shard that a command line asks for."""
    if text is None:
        return None
    shard = Shard.parse(text)
    if stage not in (None, *STAGES):
        raise UserError(
            f"--shard: expected a stage of parts ({', '.join(STAGES)}), got {stage}: leave --shard out"
        )
    if overwrite:
        raise UserError(
            "--shard: expected to add to a run, got --overwrite, which removes it: choose another --out"
        )
    return shard


def shard_stages(names: Sequence[str], shard: Shard | None, *, finishing: bool) -> tuple[str, ...]:
    """Return the stages of a command for a shard, or for the command that finishes after all shards."""
    if finishing:
        return tuple(name for name in names if name in ("observe", "measure", "report"))
    return tuple(name for name in names if shard is None or name in STAGES)


def holds(run: Run, part: int) -> bool:
    """Return whether a part is this process's to make: of a shared run, those of its shard."""
    return run.shard is None or run.shard.holds(part)


def share(run: Run, parts: Sequence[Part]) -> list[Part]:
    """Those of the parts of a stage that are this process's to make."""
    return [part for part in parts if holds(run, part.identity["part"])]


def is_complete(path: Path, shard: Shard | None = None) -> bool:
    """Return whether every part that the sharers of a run were to make is there; never for a shard without parts.

    Kinds of which no part is there were not asked for, as far as one knows who has made some.
    """
    run = Run.open(path)
    if shard and shard.index >= run.meta.get("parts", 0):
        return False
    run.meta = merged_record(run.meta, list(_records(path)))
    run.meta.pop(KEY, None)
    return BEGUN in run.meta and not completeness.has_missing_parts(run)


def became_complete(path: Path) -> bool:
    """Return whether all is there of a run that was measured when it was not."""
    return KEY in Run.open(path).meta and is_complete(path)


def elapsed(run: Run, stage: str) -> float:
    """Seconds that all shards together took for a stage."""
    return math.fsum(entry["seconds"].get(stage, 0.0) for entry in run.meta.get(SHARDS) or [])


def _records(path: Path) -> Iterator[dict[str, Any]]:
    """The records of shards, those that began first before others."""
    found = []
    for file in sorted((path / SHARDS).glob("*.json")):
        if is_leftover(file.name):  # another process is writing it
            continue
        try:
            record = parse_json(file.read_text(encoding="utf-8"))
            if record["id"] != file.stem:  # it is removed under this name once it is gathered
                raise ValueError
            fields = recorded_files.found_record(dict(record["fields"]), path)
            found.append((str(record["began"]), str(record["id"]), {**record, "fields": fields}))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            raise UserError(
                f"{file}: expected the record of a shard, got a damaged file: delete it, the parts are not touched"
            ) from None
    yield from (record for *_, record in sorted(found, key=lambda one: one[:2]))


def merge_records(run: Run, *, alone: bool) -> None:
    """Take what shards noted into ``run.json``; who has the run alone removes their records then."""
    records = list(_records(run.path))
    if not records or not run.meta:
        return
    meta = merged_record(run.meta, records)
    if meta != run.meta:
        run.write_meta(**meta)
    for record in records if alone else ():
        run.remove_file(f"{SHARDS}/{record['id']}.json")
    if alone:
        with contextlib.suppress(OSError):
            (run.path / SHARDS).rmdir()


def merged_record(meta: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A record of a run with what shards noted; the same however often they are gathered.

    What was made again and the sizes of batches are those of all. ``shards`` lists the processes, and the time that a
    stage took is the sum of theirs. How often an observer found what is left out: no shard knows it of the run.
    """
    meta = {**meta}
    known = {entry["id"]: entry for entry in meta.get(SHARDS) or []}
    for record in records:
        fields = record["fields"]
        for name, value in fields.items():
            there = meta.get(name)
            if name == "made_again":
                meta[name] = [*(there or []), *(entry for entry in value if entry not in (there or []))]
            elif name in SIZES:
                meta[name] = sorted({*(there or []), *(value or [])}, reverse=True)
            elif name in ("not_observed", KINDS):
                meta[name] = {**(there or {}), **value}
                meta[name] = dict(sorted(meta[name].items())) if name == KINDS else meta[name]
            elif name == "observe":
                meta["config"] = _observing(meta["config"], value)
            elif name != "device" and isinstance(value, Mapping):
                meta[name] = {key: entry for key, entry in value.items() if key != "counts"}
        known[record["id"]] = {
            **{name: record[name] for name in ("id", "shard", "host", "began", "seconds")},
            "device": (fields.get("device") or {}).get("name"),
            "traced": (fields.get("trace") or {}).get("seconds", 0.0),
        }
    if records:
        meta[SHARDS] = sorted(known.values(), key=lambda entry: (entry["began"], entry["id"]))
        meta["times"] = _times(meta.get("times") or {}, meta[SHARDS])
    if records and any(entry["traced"] for entry in meta[SHARDS]):
        meta["trace"] = {**meta["trace"], "seconds": round(sum(entry["traced"] for entry in meta[SHARDS]), 1)}
    return meta


def _observing(config: Mapping[str, Any], observe: Mapping[str, Any]) -> dict[str, Any]:
    resolved = config["resolved"]
    return {**config, "resolved": {**resolved, "observe": {**resolved.get("observe", {}), **observe}}}


def _times(times: Mapping[str, Any], shards: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how long the stages took that shards went through: the sum over all processes."""
    seconds = dict(times.get("seconds") or {})
    for stage in ("generated", "observed"):
        took = [entry["seconds"][stage] for entry in shards if stage in entry["seconds"]]
        if took:
            seconds[stage] = round(math.fsum(took), 1)
    return {**times, **({"seconds": seconds} if seconds else {})}
