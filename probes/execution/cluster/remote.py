"""What the stages that draw ask workers of a cluster for, and what these are told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from probes.config.schema import Config
from probes.execution import loop
from probes.execution.cluster.driver import Cluster, shards_of
from probes.execution.cluster.job import Job
from probes.execution.settings import Settled
from probes.models import loading
from probes.runs.store import Run

if TYPE_CHECKING:
    from probes.stages.generate import Drawing
    from probes.stages.trace.stage import Tracing

_DRAWING, _TRACING = "probes.execution.cluster.drawing", "probes.execution.cluster.tracing"
_OPENED = {"generate": _DRAWING, "trace": _TRACING}


def settled(
    cluster: Cluster, run: Run, config: Config, source: loading.Source, samples: Sequence[Any]
) -> Settled:
    """What a worker finds out for all: this machine may have neither a GPU nor room for the model.

    Raises
    ------
    UserError
        The model cannot be loaded there, or cannot draw what is asked.
    """
    found = cluster.ask(f"{_DRAWING}:settled", Job.of(run, config, source), len(samples))
    return Settled(**{**found, "model": {**found["model"], "path": str(source.path.absolute())}})


def batch(cluster: Cluster, run: Run, config: Config, source: loading.Source) -> dict[str, Any]:
    """What a worker finds out for the trace stage: ``batch``, ``device`` and ``threads``.

    Raises
    ------
    UserError
        The model cannot be loaded there, or has other weights than the run was drawn with.
    """
    weights = (run.meta.get("model") or {}).get("weight_hash")
    return cluster.ask(f"{_TRACING}:settled", Job.of(run, config, source, weights=weights))


def draw(
    cluster: Cluster,
    run: Run,
    stage: str,
    work: Drawing | Tracing,
    fields: Mapping[str, Any],
    sizes: Sequence[int],
    parts: Sequence[loop.Part],
    todo: Sequence[loop.Part],
) -> None:
    """Have the parts of a stage drawn that are due, see :meth:`probes.execution.cluster.driver.Cluster.make`.

    Parameters
    ----------
    stage : str
        ``generate`` or ``trace``.
    """
    told = {"fields": fields, "sizes": sizes, "weights": work.weights, "threads": work.threads}
    job = Job.of(run, work.config, work.source, device=work.config.generate.device, **told)
    opens, images = f"{_OPENED[stage]}:opened", sum(part.images for part in parts)
    cluster.make(run, stage, opens, job, shards_of(todo), images)
