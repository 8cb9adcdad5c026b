"""Who is given which parts, and what becomes of those whose worker is lost. Knows no engine.

The driver holds the queue. A worker is given parts once it has answered that its models are loaded, and one call ahead,
so that it never waits for the driver; a call holds several parts only where they take a fraction of a second. Of a
worker that is lost all parts that it had go back into the queue, and another worker is asked for in its place; one more
than there is room for stands by, for whatever machine joins.
"""

from __future__ import annotations

import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from probes.errors import UserError
from probes.execution.cluster.engine import Engine, Heard, Lost, PartTask

FAILURES = 3  # after which a part is named, and the rest goes on
LOSSES = 8  # of workers at a part, or of workers before they were ready: most say nothing about the part
PATIENCE = 60.0  # seconds without any worker, after which it is said what is waited for
_PAUSE = 1.0  # seconds until the driver looks around though nothing was heard
_CALL = 0.2  # seconds that a call takes at least, where parts are quicker
_TOGETHER = 64  # parts of one call
_AHEAD = 2  # calls that a worker has, the one it is at included


@dataclass
class _Worker:
    """A worker: where it is, once it is placed; the calls of parts that it has; answers to ``opened`` to come."""

    host: str = ""
    placed: bool = False
    opening: int = 0
    open: bool = False
    at: deque[list[PartTask]] = field(default_factory=deque)

    @property
    def ready(self) -> bool:
        return self.open and not self.opening


@dataclass
class _Stage:
    """The parts of a stage that are still to be made, and what befell some of them."""

    function: str
    job: Any
    todo: deque[PartTask]
    made: Callable[[int], None]
    failures: Counter[int] = field(default_factory=Counter)
    losses: Counter[int] = field(default_factory=Counter)
    failed: dict[int, str] = field(default_factory=dict)
    memory: str | None = None
    seconds: float = 0.0  # that a part takes


class Pool:
    """The workers of a cluster, over all stages of a run.

    Parameters
    ----------
    engine
        Places them.
    expected : int
        How many there is room for now.
    limit : int, optional
        How many are wanted at most.
    versions : mapping
        Of the libraries that have a say in the bytes of a part; a worker with others is refused.
    mixed : bool
        Take workers with another kind of device than the first.
    say
        Told, in a line, what the driver waits for.
    """

    def __init__(
        self,
        engine: Engine,
        expected: int,
        limit: int | None = None,
        *,
        versions: Mapping[str, str] | None = None,
        mixed: bool = False,
        say: Callable[[str], None] = print,
    ):
        self.lost = Lost()
        self.devices: list[str] = []
        self.most = 0  # workers that were placed at a time
        self._engine, self._expected, self._limit = engine, expected, limit
        self._versions, self._mixed, self._say = versions or {}, mixed, say
        self._workers: dict[int, _Worker] = {}
        self._vain = 0  # workers in a row that ended before they were ready
        self._since: float | None = None

    @property
    def expected(self) -> int:
        """Workers that there is room for, at least one."""
        return max(1, self._expected)

    @property
    def ready(self) -> int:
        """Workers that are at work or can be given some."""
        return sum(worker.ready for worker in self._workers.values())

    def count_machines(self) -> None:
        """Count the machines that are known to be lost by now, also those whose workers were found lost before them."""
        if self.lost.workers:
            self.lost.nodes |= self._engine.gone()

    def close(self) -> None:
        """End all workers."""
        for number in [*self._workers]:
            self._drop(number)

    def ask(self, function: str, text: str, parts: int = 1) -> Any:
        """What a worker answers to a stage's question, see `probes.execution.cluster.worker.Worker.asked`.

        Parameters
        ----------
        function, text
            Who answers it, and the job.
        parts
            That are to be made next, at most: workers for them may start meanwhile.

        Raises
        ------
        UserError
            What the user can mend, there or with the cluster.
        MemoryError
            There is no room on the device.
        """
        asked: int | None = None
        while True:
            self._hire(parts)
            if asked not in self._workers:
                asked = next((number for number, worker in self._workers.items() if worker.placed), None)
                if asked is not None:
                    self._workers[asked].open = False
                    self._engine.send(asked, "asked", function, text)
            for heard in self._hear(None):
                if heard.call == "asked" and heard.worker == asked:
                    if "answer" in heard.answer:
                        return heard.answer["answer"]
                    self._raise(heard)
                    raise MemoryError(heard.answer["memory"])

    def make(
        self,
        function: str,
        text: str,
        shards: Sequence[PartTask],
        made: Callable[[int], None] = lambda images: None,
        looked: Callable[[], None] = lambda: None,
    ) -> dict[int, str]:
        """Have all parts made.

        Parameters
        ----------
        function, text
            What opens the stage in a worker, see `probes.execution.cluster.worker.Worker.opened`.
        shards
            The parts.
        made
            Told the images of each part that is there.
        looked
            Called whenever the driver looked around, at least every second.

        Returns
        -------
        dict of int to str
            Parts that could not be made, each with the traceback of the last attempt, or that its workers were lost.

        Raises
        ------
        UserError
            The first thing that the user can mend.
        MemoryError
            A device has no room for a batch; no part is under way any more.
        """
        stage = _Stage(function, self._engine.shared(text), deque(shards), made)
        for number, worker in self._workers.items():
            worker.open = False
            if worker.placed:
                self._open(number, stage)
        while True:
            under_way = sum(len(call) for worker in self._workers.values() for call in worker.at)
            if stage.memory is not None and not under_way:
                raise MemoryError(stage.memory)
            if not stage.todo and not under_way:
                return stage.failed
            if stage.memory is None:
                self._hire(len(stage.todo) + under_way)
                self._give(stage)
            for heard in self._hear(stage):
                self._answered(heard, stage)
            looked()

    # Workers

    def _hire(self, parts: int) -> None:
        """Ask for as many workers as there is room for, and one that stands by; never for more than parts."""
        wanted = min(max(self._expected, self.most) + 1, self._limit or parts, max(1, parts))
        while len(self._workers) < wanted:
            self._workers[self._engine.start()] = _Worker()

    def _open(self, number: int, stage: _Stage) -> None:
        worker = self._workers[number]
        worker.open, worker.opening = True, worker.opening + 1
        self._engine.send(number, "opened", stage.function, stage.job)

    def _give(self, stage: _Stage) -> None:
        ready = [(number, worker) for number, worker in self._workers.items() if worker.ready]
        for calls in range(1, _AHEAD + 1):  # to each its first before any is given one ahead
            for number, worker in ready:
                if not stage.todo:
                    return
                if len(worker.at) < calls and (calls == 1 or len(stage.todo) >= len(ready)):
                    self._send(number, worker, stage, len(ready))

    def _send(self, number: int, worker: _Worker, stage: _Stage, ready: int) -> None:
        quick = int(_CALL / stage.seconds) if stage.seconds else 1
        count = max(1, min(quick, _TOGETHER, len(stage.todo) // (_AHEAD * ready)))
        call = [stage.todo.popleft() for _ in range(min(count, len(stage.todo)))]
        worker.at.append(call)
        self._engine.send(number, "made", _told(call))

    # What is heard

    def _hear(self, stage: _Stage | None) -> list[Heard]:
        """What is heard but for workers placed, opened and lost, which is seen to; nothing of those that are lost.

        What a worker answered just before it was lost counts as lost, too: its parts are made again.
        """
        others = []
        for heard in self._engine.heard(_PAUSE):
            if heard.worker not in self._workers:
                continue
            if heard.lost is not None:
                self._gone(heard, stage)
            elif heard.call == "placed":
                self._placed(heard, stage)
            elif heard.call == "opened":
                self._opened(heard)
            else:
                others.append(heard)
        self._wait()
        return [heard for heard in others if heard.worker in self._workers]

    def _placed(self, heard: Heard, stage: _Stage | None) -> None:
        self._raise(heard)
        worker, answer = self._workers[heard.worker], heard.answer
        worker.placed, worker.host = True, answer["host"]
        self.most = max(self.most, sum(other.placed for other in self._workers.values()))
        for name, version in self._versions.items():
            if answer["versions"].get(name) != version:
                raise UserError(
                    f"cluster: expected {name} {version} on {worker.host}, as on the driver, found"
                    f" {answer['versions'].get(name) or 'none'}: install the same versions on all machines"
                )
        if stage is not None:
            self._open(heard.worker, stage)

    def _opened(self, heard: Heard) -> None:
        worker = self._workers[heard.worker]
        worker.opening -= 1
        if "bug" in heard.answer and self._vain + 1 < FAILURES:
            self._vain += 1
            self._drop(heard.worker)
            return
        self._raise(heard)
        if "memory" in heard.answer:
            raise MemoryError(heard.answer["memory"])
        self._vain = 0
        name = heard.answer["device"]
        if self.devices and name not in self.devices and not self._mixed:
            raise UserError(
                f"cluster: expected workers on {self.devices[0]}, like the first, got {name} on {worker.host}, whose"
                " images differ in their last bits: take machines of one kind, or set cluster.mixed_devices to true"
            )
        if name not in self.devices:
            self.devices.append(name)

    def _gone(self, heard: Heard, stage: _Stage | None) -> None:
        worker = self._workers.pop(heard.worker)
        self.lost.workers += 1
        if heard.node is not None:
            self.lost.nodes.add(heard.node)
        elif not worker.ready:
            self._vain += 1
            if self._vain >= LOSSES:
                raise UserError(
                    f"cluster: expected a worker to start, lost {self._vain} in a row before they were ready"
                    f" ({heard.lost}): look into Ray's logs, give each more memory, or use fewer workers"
                )
        if stage is None or not worker.at:
            return
        self.lost.parts += sum(map(len, worker.at))
        again = worker.at.popleft()
        _put_first(stage, [shard for call in worker.at for shard in call])
        for shard in again:
            stage.losses[shard.number] += heard.node is None
            if stage.losses[shard.number] < LOSSES:
                stage.todo.append(shard)
            else:
                stage.failed[shard.number] = f"{LOSSES} workers were lost at it, the last: {heard.lost}"

    def _answered(self, heard: Heard, stage: _Stage) -> None:
        """An answer to ``made``."""
        worker, answer = self._workers[heard.worker], heard.answer
        call = worker.at.popleft()
        done = set(answer.get("made", ()))
        for shard in call:
            if shard.number in done:
                stage.made(shard.images)
        if "failed" not in answer:
            seconds = answer["seconds"] / len(call)
            stage.seconds = 0.8 * stage.seconds + 0.2 * seconds if stage.seconds else max(seconds, 1e-6)
            return
        _put_first(stage, [shard for shard in call if shard.number not in done])
        if "mendable" in answer:
            self._raise(heard)
        elif "memory" in answer:
            stage.memory = answer["memory"]
        else:  # whatever it was, another worker is a fresh start
            _put_first(stage, [shard for later in worker.at for shard in later])
            self._drop(heard.worker)
            number = answer["failed"]
            shard = next(shard for shard in call if shard.number == number)
            stage.todo.remove(shard)
            stage.failures[number] += 1
            if stage.failures[number] < FAILURES:
                stage.todo.append(shard)
            else:
                stage.failed[number] = answer["bug"]

    def _drop(self, number: int) -> None:
        del self._workers[number]
        self._engine.drop(number)

    def _raise(self, heard: Heard) -> None:
        """Raise what the user can mend, with the machine where it is another, and a bug with its traceback."""
        answer, host = heard.answer, self._workers[heard.worker].host
        if "mendable" in answer:
            elsewhere = host and host != socket.gethostname()
            raise UserError(f"{host}: {answer['mendable']}" if elsewhere else answer["mendable"])
        if "bug" in answer:
            error = RuntimeError(answer["line"].strip())
            error.add_note(f"in a worker on {host}:\n{answer['bug']}")
            raise error

    def _wait(self) -> None:
        """Say once what is waited for where no worker is to be had."""
        if any(worker.placed for worker in self._workers.values()):
            self._since = None
        elif self._since is None:
            self._since = time.monotonic()
        elif 0 < self._since < time.monotonic() - PATIENCE:
            self._say(
                "cluster: no machine has room for a worker yet, waiting for one; Control-C ends the run"
            )
            self._since = -1.0


def _told(call: Sequence[PartTask]) -> str:
    return "[" + ",".join(f'[{shard.number},"{shard.identity}"]' for shard in call) + "]"


def _put_first(stage: _Stage, shards: Sequence[PartTask]) -> None:
    stage.todo.extendleft(reversed(shards))
