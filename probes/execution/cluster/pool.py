"""The workers of a cluster: who is given which part, and what becomes of the parts whose worker is lost.

Workers are actors of Ray (`probes.execution.cluster.worker.Worker`), called one part at a time, and one ahead, so that
none waits for the driver. Of a worker that is lost all parts go back into the queue and another worker is asked for;
one more than there is room for stands by, for whatever machine joins.

Ray could restart actors and repeat calls by itself (``max_restarts``, ``max_task_retries``). Neither is used: a call
stays with its actor, so the run would wait for ever for the parts of a machine that does not come back, with other
workers idle; what is repeated cannot be counted; and a machine that is lost would count as a failure of its part.
"""

from __future__ import annotations

import gc
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, NamedTuple

from probes.errors import UserError
from probes.execution.cluster.job import Job
from probes.execution.cluster.pending import AHEAD, PartTask, StageParts
from probes.execution.cluster.starts import LostStarts, lost_node

FAILURES = 3  # after which a part is named, and the rest goes on
LOSSES = 8  # of workers at a part: most say nothing about it
PATIENCE = 60.0  # seconds without any worker, after which it is said what is waited for
_PAUSE = 1.0  # seconds until the driver looks around though nothing was answered


@dataclass
class Lost:
    """Losses: workers, machines, and parts that went back into the queue with them."""

    workers: int = 0
    nodes: set[str] = field(default_factory=set)
    parts: int = 0

    def __str__(self) -> str:
        counts = ((self.workers, "worker"), (len(self.nodes), "node"), (self.parts, "part"))
        said = [f"{count} {what}{'s' if count > 1 else ''}" for count, what in counts if count]
        return f"lost {', '.join(said[:2])}" + (f", {said[2]} again" if said[2:] else "") if said else ""


@dataclass(eq=False)
class _Worker:
    """A worker: its actor, the machine it is on once there is room for it, the stage it is opening, its parts."""

    actor: Any
    host: str = ""
    node: str | None = None
    opening: Any = None
    ready: bool = False
    parts: deque[PartTask] = field(default_factory=deque)


class _Call(NamedTuple):
    worker: _Worker
    name: str


class Pool:
    """The workers of a cluster, at most `limit`, over all stages of a run; `versions` of libraries are asked for."""

    def __init__(
        self,
        ray: ModuleType,
        kind: Any,
        expected: int,
        limit: int | None = None,
        *,
        versions: Mapping[str, str],
        mixed: bool = False,
        say: Callable[[str], None] = print,
    ):
        self.lost = Lost()
        self.devices: list[str] = []
        self.most = 0  # workers that were placed at a time
        self._ray, self._kind, self._expected, self._limit = ray, kind, expected, limit
        self._versions, self._mixed, self._say = versions, mixed, say
        self._workers: list[_Worker] = []
        self._calls: dict[Any, _Call] = {}  # by what Ray gives for the answer to come
        self._nodes: set[str] = set()  # that had workers
        self._failed_starts = 0  # workers in a row that could not open a stage
        self._lost_starts = LostStarts()
        self._since: float | None = None

    @property
    def expected(self) -> int:
        """Workers that there is room for, at least one."""
        return max(1, self._expected)

    @property
    def ready(self) -> int:
        """Workers that are at work or can be given some."""
        return sum(worker.ready for worker in self._workers)

    def count_machines(self) -> None:
        """Count the machines that are known to be lost by now, also those whose workers were found lost before them."""
        if self.lost.workers:
            self.lost.nodes |= self._lost_nodes()

    def close(self) -> None:
        """End all workers."""
        for worker in [*self._workers]:
            self._end(worker)

    def ask(self, function: str, job: Job, parts: int = 1) -> Any:
        """Return what a worker answers to a stage's question, see `probes.execution.cluster.worker.Worker.answer`."""
        reply: Any = None
        while True:
            self._hire(parts)
            if reply not in self._calls:
                worker = next((worker for worker in self._workers if worker.host), None)
                if worker is not None:
                    worker.ready, worker.opening = False, None
                    reply = self._call(worker, "answer", function, job)
            for call, answer in self._answers(None):
                if call.name == "answer":
                    self._lost_starts.clear()
                    return _checked(answer, call.worker.host)

    def make(
        self,
        function: str,
        job: Job,
        tasks: Sequence[PartTask],
        made: Callable[[PartTask], None] = lambda task: None,
        report: Callable[[], None] = lambda: None,
    ) -> dict[int, str]:
        """Have all parts made; returns those that could not be, each with its last traceback or loss.

        `made` is told each part that is there; `report` is called at least every second.
        """
        gc.freeze()  # this process is asked for collections, too, see `probes.execution.cluster.garbage`
        stage = StageParts(function, self._ray.put(job), deque(tasks), made)
        for worker in self._workers:
            worker.ready = False
            if worker.host:
                self._open(worker, stage)
        while left := len(stage.todo) + sum(len(worker.parts) for worker in self._workers):
            if stage.memory is not None and left == len(stage.todo):
                raise stage.memory
            if stage.memory is None:
                self._hire(left)
                self._give(stage)
            for call, answer in self._answers(stage):
                self._made(call.worker, answer, stage)
            report()
        return stage.failed

    # Workers

    def _call(self, worker: _Worker, name: str, *arguments: Any) -> Any:
        """Call a worker, after the calls that it has already."""
        answer = getattr(worker.actor, name).remote(*arguments)
        self._calls[answer] = _Call(worker, name)
        return answer

    def _hire(self, parts: int) -> None:
        """Ask for as many workers as there is room for, and one that stands by; never for more than parts."""
        wanted = min(max(self._expected, self.most) + 1, self._limit or parts, max(1, parts))
        while len(self._workers) < wanted:
            worker = _Worker(self._kind.remote())  # asked for until there is room
            self._workers.append(worker)
            self._call(worker, "describe")

    def _open(self, worker: _Worker, stage: StageParts) -> None:
        worker.opening = self._call(worker, "open_stage", stage.function, stage.job)

    def _give(self, stage: StageParts) -> None:
        ready = [worker for worker in self._workers if worker.ready]
        for parts in range(1, AHEAD + 1):  # to each its first before any is given one ahead
            for worker in ready:
                enough = parts == 1 or len(stage.todo) >= len(ready)
                if enough and len(worker.parts) < parts and stage.todo:
                    task = stage.todo.popleft()
                    worker.parts.append(task)
                    self._call(worker, "make_part", task.number, task.identity)

    def _end(self, worker: _Worker) -> None:
        """End a worker, whatever it is at; nothing more is heard of it."""
        self._workers.remove(worker)
        self._calls = {answer: call for answer, call in self._calls.items() if call.worker is not worker}
        self._ray.kill(worker.actor)

    def _lost_nodes(self) -> set[str]:
        """The machines that had workers and that Ray knows to be lost by now."""
        return self._nodes - {node["NodeID"] for node in self._ray.nodes() if node["Alive"]}

    # What is answered

    def _answers(self, stage: StageParts | None) -> list[tuple[_Call, Any]]:
        """Answers to ``answer`` and ``make_part``; workers that are placed, opened or lost are seen to."""
        ready, _ = self._ray.wait([*self._calls], num_returns=1, timeout=_PAUSE)
        if ready and len(self._calls) > 1:
            ready, _ = self._ray.wait([*self._calls], num_returns=len(self._calls), timeout=0)
        others = []
        for reference in ready:
            call = self._calls.pop(reference, None)
            if call is None:  # of a worker that was found lost by another of its calls
                continue
            try:
                answer = self._ray.get(reference)
            except self._ray.exceptions.RayActorError as error:
                call.worker.node = call.worker.node or lost_node(error)
                self._lose(call.worker, _reason(error), stage)
                continue
            except self._ray.exceptions.RayError as error:
                answer = getattr(error, "cause", error)
            if call.name == "describe":
                self._placed(call.worker, _checked(answer), stage)
            elif call.name == "open_stage":
                self._opened(call.worker, answer, latest=reference == call.worker.opening)
            else:
                others.append((call, answer))
        if not others:
            self._lost_starts.require(self._lost_nodes)
        self._say_waiting()
        return [(call, answer) for call, answer in others if call.worker in self._workers]

    def _placed(self, worker: _Worker, answer: Mapping[str, Any], stage: StageParts | None) -> None:
        worker.host, worker.node = answer["host"], answer["node"]
        self._nodes.add(answer["node"])
        self.most = max(self.most, sum(bool(other.host) for other in self._workers))
        for name, version in self._versions.items():
            if answer["versions"].get(name) != version:
                raise UserError(
                    f"cluster: expected {name} {version} on {worker.host}, as on the driver, found"
                    f" {answer['versions'].get(name) or 'none'}: install the same versions on all machines"
                )
        if stage is not None:
            self._open(worker, stage)

    def _opened(self, worker: _Worker, answer: Any, *, latest: bool) -> None:
        if _is_bug(answer) and self._failed_starts + 1 < FAILURES:
            self._failed_starts += 1
            self._end(worker)
            return
        device = _checked(answer, worker.host)
        self._failed_starts, worker.ready = 0, latest
        self._lost_starts.clear()
        if self.devices and device not in self.devices and not self._mixed:
            raise UserError(
                f"cluster: expected workers on {self.devices[0]}, like the first, got {device} on {worker.host}, whose"
                " images differ in their last bits: take machines of one kind, or set cluster.mixed_devices to true"
            )
        if device not in self.devices:
            self.devices.append(device)

    def _made(self, worker: _Worker, answer: Any, stage: StageParts) -> None:
        task = worker.parts.popleft()
        if isinstance(answer, MemoryError):
            stage.memory = answer
            stage.todo.appendleft(task)
        elif _is_bug(answer):  # another worker is a fresh start
            stage.todo.extendleft(reversed(worker.parts))
            self._end(worker)
            self._again(task, stage, stage.failures, FAILURES, str(answer))
        else:
            _checked(answer, worker.host)
            self._lost_starts.clear()
            stage.made(task)

    def _lose(self, worker: _Worker, reason: str, stage: StageParts | None) -> None:
        self._end(worker)  # of one that cannot be reached the process may still be there
        self.lost.workers += 1
        self._nodes |= {worker.node} - {None}
        node = worker.node if worker.node in self._lost_nodes() else None
        if node is not None:
            self.lost.nodes.add(node)
        elif not worker.ready:
            self._lost_starts.add(worker.node, reason)
        if stage is None or not worker.parts:
            return
        self.lost.parts += len(worker.parts)
        at = worker.parts.popleft()
        stage.todo.extendleft(reversed(worker.parts))
        if node is not None:
            stage.todo.append(at)
        else:
            said = f"{LOSSES} workers were lost at it, the last: {reason}"
            self._again(at, stage, stage.losses, LOSSES, said)

    def _again(self, task: PartTask, stage: StageParts, counts: Counter[int], most: int, why: str) -> None:
        """Put a part that came to nothing at the end of the queue; name it after so many times."""
        counts[task.number] += 1
        if counts[task.number] < most:
            stage.todo.append(task)
        else:
            stage.failed[task.number] = why

    def _say_waiting(self) -> None:
        """Say once what is waited for where no worker is to be had."""
        if any(worker.host for worker in self._workers):
            self._since = None
        elif self._since is None:
            self._since = time.monotonic()
        elif 0 < self._since < time.monotonic() - PATIENCE:
            self._say(
                "cluster: no machine has room for a worker yet, waiting for one; Control-C ends the run"
            )
            self._since = -1.0


def _is_bug(answer: Any) -> bool:
    return isinstance(answer, Exception) and not isinstance(answer, (UserError, MemoryError))


def _checked(answer: Any, host: str = "") -> Any:
    """Return an answer; raise what was raised there, with the machine where it is another."""
    if isinstance(answer, UserError):
        raise UserError(f"{host}: {answer}") if host and host != socket.gethostname() else answer
    if isinstance(answer, MemoryError):
        raise answer
    if isinstance(answer, Exception):
        error = RuntimeError(str(answer).strip().splitlines()[-1])
        error.add_note(f"in a worker on {host}:\n{answer}")
        raise error
    return answer


def _reason(error: Exception) -> str:
    """Ray's reason, in a line: the one that is not about the actor's name and number."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if line.startswith("The actor")), lines[0] if lines else "")[:200]
