"""Claims of a run directory on object storage, where there are no locks: objects that run out unless they are renewed.

A claim is an object under ``.claims/`` that a conditional PUT makes where there is none. It names its owner and is
written anew every quarter of `SECONDS`, each time on condition that it is what was written last; a claim that was not
renewed for so long, as of a process that was killed, is broken by whoever finds it, by a conditional PUT again. So of a
holder that is slow and one that takes over, one alone succeeds, and the other one knows. Ages are measured by the
clock of the storage, never by those of two machines.

A holder whose claim was broken, or who could not renew it in time, writes nothing more: each write of it asks first,
and ``run.json`` is written on condition that it is what this process wrote last.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import secrets
import socket
import sys
import threading
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from probes.errors import UserError
from probes.json_text import parse_json
from probes.storage import locations
from probes.storage.locks import AGAINST, FolderHold, Hold, OtherHoldsError
from probes.storage.objects import KEPT, ChangedError, ObjectPath, StorageError, tag

FOLDER = ".claims"
SECONDS = 60.0  # for which a claim holds without being renewed
ATTEMPTS = 10  # of two that find each other and both step back
_ROUNDING = 1.0  # seconds: some stores tell whole ones
_CLOCK = ".clock"  # an object that is written to learn what time it is on the storage
_RECORD = "run.json"


class LostError(UserError):
    """The claim is lost: another process may be writing to the run."""


def hold_of(root: Path, hold: Hold) -> FolderHold | Lease:
    """The hold of a run directory, not taken yet: on object storage a lease, else a lock."""
    return Lease(root, hold) if isinstance(root, ObjectPath) else FolderHold(root, hold)


def _now() -> float:
    """Seconds that go on while the machine sleeps, where the system tells them."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Lease:
    """A claim of a run on object storage, from `take` to `close`; one not heard of for a while is waited for."""

    def __init__(self, root: Path | ObjectPath, hold: Hold):
        self.root, self.hold = cast(ObjectPath, root), hold
        self._token = secrets.token_hex(8)
        # those of which there is one at a time share a name
        name = f"{hold.value}-{self._token}" if hold is Hold.SHARD else hold.value
        self._path = self.root / FOLDER / name
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._count, self._lost = 0, False
        self._record: dict[str, str] | None = None  # version of run.json

    def take(self) -> Lease:
        """Take the claim and keep it until `close`."""
        self._take()
        try:
            self._try_conditions()
            with contextlib.suppress(FileNotFoundError):
                self._record = (self.root / _RECORD).read()[1]
            self._thread = threading.Thread(target=self._renewing, name="lease", daemon=True)
            self._thread.start()
            locations.GUARDS.append(self)
        except BaseException:
            self._path.unlink()
            raise
        return self

    def taken(self) -> bool:
        """Take the claim, as `take` does; False where another process holds the run."""
        try:
            self.take()
        except OtherHoldsError:
            return False
        return True

    def close(self) -> None:
        """Let the claim go, if it was taken."""
        if self not in locations.GUARDS:
            return
        locations.GUARDS.remove(self)
        self._stop.set()
        self._thread.join(5.0)  # one that waits for an answer renews nothing, since the claim is gone
        if not self._lost:
            with contextlib.suppress(StorageError):  # it runs out by itself
                self._path.unlink()

    # Taking it

    def _take(self) -> None:
        for _ in range(ATTEMPTS):
            try:
                self._began = _now()
                self._version = self._path.write(self._content(), None)
                created = True
            except ChangedError:
                created = self._is_mine()
            others = self._others()
            if created and not others:
                return
            if created:
                self._path.unlink()
                time.sleep(random.random())  # whoever found this one steps back as well
            self._outlast(others)
        raise self._other(next(iter(others), self._path.name))

    def _try_conditions(self) -> None:
        """Say so where the storage takes no notice of conditions: it then writes what it should refuse."""
        with contextlib.suppress(ChangedError):
            self._version = self._path.write(self._content(), None)
            print(
                f"{self.root}: this storage heeds no conditional writes, nothing keeps a second process out: see to it"
                " that only one writes here",
                file=sys.stderr,
            )

    def _content(self) -> bytes:
        owner = {"host": socket.gethostname(), "process": os.getpid(), "token": self._token}
        return json.dumps(
            {**owner, "hold": self.hold.value, "seconds": SECONDS, "renewed": self._count}
        ).encode()

    def _is_mine(self) -> bool:
        """Return whether the claim that is there is this one: a request whose answer was lost was sent again."""
        with contextlib.suppress(FileNotFoundError):
            data, version = self._path.read()
            if _parsed(data).get("token") == self._token:
                self._version = version
                return True
        return False

    def _others(self) -> dict[str, Mapping[str, Any]]:
        """Claims against which this one cannot be held, by name, as the listing has them."""
        found, against = self._path.parent.entries(), {one.value for one in AGAINST[self.hold]}
        return {
            name: entry
            for name, entry in found.items()
            if entry and name.partition("-")[0] in against and not self._own(name, entry)
        }

    def _own(self, name: str, entry: Mapping[str, Any]) -> bool:
        return name == self._path.name and tag(entry) == tag(getattr(self, "_version", {}))

    def _outlast(self, others: Mapping[str, Mapping[str, Any]]) -> None:
        """Wait until other claims are gone or have run out, and break these; one that is renewed meanwhile holds."""
        said, clock = False, self._path.parent / _CLOCK
        lasting = {name: self._lasting(name) for name in others}
        try:
            while True:
                clock.write(self._token.encode())
                found = self._path.parent.entries()
                told = found.get(_CLOCK)
                if told is None:  # another one that waits has taken it away
                    continue
                left = [0.0]
                for name, entry in others.items():
                    there = found.get(name)
                    if there is None:
                        continue
                    if tag(there) != tag(entry):
                        raise self._other(name)
                    left.append(
                        lasting[name] + _ROUNDING - _seconds(there["last_modified"], told["last_modified"])
                    )
                if max(left) <= 0:
                    break
                if not said:
                    name = next(iter(others))
                    print(
                        f"{self.root}: claimed by {self._who(name)}: waiting at most {math.ceil(max(left))} s to see"
                        " whether it is at work",
                        file=sys.stderr,
                        flush=True,
                    )
                    said = True
                time.sleep(min(max(left), SECONDS / 20))
        finally:
            with contextlib.suppress(StorageError):
                clock.unlink()
        for name, entry in others.items():
            self._break(name, entry)

    def _lasting(self, name: str) -> float:
        seconds = self._read(name).get("seconds", SECONDS)
        return float(seconds) if isinstance(seconds, (int, float)) else SECONDS

    def _break(self, name: str, entry: Mapping[str, Any]) -> None:
        """Take away a claim that has run out: first it is made another's, so that its holder cannot renew it."""
        path = self._path.parent / name
        try:
            version = path.read()[1]  # which a listing does not say on every storage
        except FileNotFoundError:
            return
        if tag(version) != tag(entry):
            raise self._other(name)
        broken = json.dumps({"broken": True, "token": self._token, "seconds": SECONDS}).encode()
        try:
            path.write(broken, version)
        except ChangedError:
            if path.exists():  # it was renewed after all, or broken by another
                raise self._other(name) from None
            return
        path.unlink()

    def _read(self, name: str) -> dict[str, Any]:
        try:
            return _parsed((self._path.parent / name).read_bytes())
        except FileNotFoundError:
            return {}

    def _who(self, name: str) -> str:
        said = self._read(name)
        return f"process {said.get('process', '?')} on {str(said.get('host', 'another host'))[:64]}"

    def _other(self, name: str) -> OtherHoldsError:
        return OtherHoldsError(Hold(name.partition("-")[0]), self._who(name))

    # Keeping it

    def _renewing(self) -> None:
        while not self._stop.wait(SECONDS / 4) and not self._lost:
            with contextlib.suppress(StorageError):  # what cannot be renewed in time is lost, see `require`
                self._renew()

    def _renew(self) -> None:
        with self._lock:
            if self._lost:
                return
            sent, self._count = _now(), self._count + 1
            try:
                self._version = self._path.write(self._content(), self._version)
            except ChangedError:
                self._lost = not self._is_mine()  # else it is renewed at the next turn
                return
            self._began = sent

    def require(self) -> None:
        """Say that the run is held still, renewing the claim first where that is overdue."""
        if not self._lost and _now() - self._began > SECONDS:
            try:
                self._renew()
            except StorageError as error:
                raise LostError(f"{error}") from None
        if self._lost:
            raise LostError(
                f"{self.root}: expected to hold this run, found that the claim ran out and another process took it"
                f" over: nothing more is written, let that one end; {KEPT}"
            )

    def write(self, path: ObjectPath, data: bytes | memoryview) -> None:
        """Write an object of the run, if it is held still."""
        self.require()
        if path != self.root / _RECORD:
            path.write(data)
            return
        try:
            self._record = path.write(data, self._record)
        except ChangedError:
            there, version = path.read() if path.exists() else (b"", None)
            if there != bytes(data):  # else the request was sent twice
                raise LostError(
                    f"{path}: expected the record that this process wrote last, found another: nothing more is written,"
                    f" another process works on this run; {KEPT}"
                ) from None
            self._record = version


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        said = parse_json(data)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _seconds(before: datetime, after: datetime) -> float:
    return (after - before).total_seconds()
