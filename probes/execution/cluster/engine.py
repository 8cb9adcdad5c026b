"""What the queue of a cluster is made of: parts, the engine that places workers, what is heard of them and lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class PartTask:
    """A part of a run as the driver knows it: its number, the hash of its identity, its images and its files."""

    number: int
    identity: str
    images: int
    paths: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Heard:
    """What is heard of a worker: the answer to a call; or that it is lost, why, and with which machine if with one."""

    worker: int
    call: str = ""
    answer: Mapping[str, Any] = field(default_factory=dict)
    lost: str | None = None
    node: str | None = None


class Engine(Protocol):
    """Places workers (`probes.execution.cluster.worker.Worker`) on machines and carries calls and answers."""

    def start(self) -> int:
        """Ask for a worker; gives its number. It answers ``placed`` once there is room for it."""
        ...

    def shared(self, text: str) -> Any:
        """Hold a long text for calls of several workers; gives what stands for it in `send`."""
        ...

    def send(self, worker: int, call: str, *told: Any) -> None:
        """Call a worker, after the calls that it has already."""
        ...

    def heard(self, seconds: float) -> list[Heard]:
        """What is heard, waiting at most so long; nothing more after a worker is lost or dropped."""
        ...

    def drop(self, worker: int) -> None:
        """End a worker, whatever it is at."""
        ...

    def gone(self) -> set[str]:
        """Machines that had workers and are known to be lost by now, which may be heard after their workers' loss."""
        ...


@dataclass
class Lost:
    """What was lost: workers, machines, and parts that went back into the queue with them."""

    workers: int = 0
    nodes: set[str] = field(default_factory=set)
    parts: int = 0

    def __str__(self) -> str:
        counts = ((self.workers, "worker"), (len(self.nodes), "node"), (self.parts, "part"))
        said = [f"{count} {what}{'s' if count > 1 else ''}" for count, what in counts if count]
        return f"lost {', '.join(said[:2])}" + (f", {said[2]} again" if said[2:] else "") if said else ""
