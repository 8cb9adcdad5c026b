"""How a stage that draws has workers of a cluster make its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from probes.config.schema import Config
from probes.execution.cluster.driver import ClusterWorkers, shards_of
from probes.execution.cluster.job import Job
from probes.execution.part import Part
from probes.models import loading
from probes.runs.store import Run


class RemoteWork(Protocol):
    """What is said to workers of the work of a stage: its model, what it was drawn with, and the threads of torch."""

    @property
    def source(self) -> loading.Source: ...  # noqa: D102
    @property
    def config(self) -> Config: ...  # noqa: D102
    @property
    def weights(self) -> str | None: ...  # noqa: D102
    @property
    def threads(self) -> int: ...  # noqa: D102


def draw(
    cluster: ClusterWorkers,
    run: Run,
    stage: str,
    opens: str,
    work: RemoteWork,
    fields: Mapping[str, Any],
    sizes: Sequence[int],
    parts: Sequence[Part],
    todo: Sequence[Part],
) -> None:
    """Have the parts of a stage drawn that are due, see :meth:`probes.execution.cluster.driver.ClusterWorkers.make`.

    Parameters
    ----------
    stage : str
        Its name, for the progress bar.
    opens : str
        The function that opens the stage in a worker, as ``module:function``.
    """
    told = {"fields": fields, "sizes": sizes, "weights": work.weights, "threads": work.threads}
    job = Job.of(run, work.config, work.source, device=work.config.generate.device, **told)
    images = sum(part.images for part in parts)
    cluster.make(run, stage, opens, job, shards_of(todo), images)
