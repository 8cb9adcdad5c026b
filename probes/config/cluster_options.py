"""The section ``cluster`` of ``triplets.yaml``: a Ray cluster whose workers generate and observe the images."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from probes.fields.types import ADDRESS, Section, Share, option, takes

WORKERS = 100_000  # of a cluster
AUTO, LOCAL, NONE = "auto", "local", "none"


class Cluster(Section):
    """Workers of a Ray cluster, each of which makes whole parts of a run; none of it alters a byte that is stored."""

    address: Annotated[str, Field(pattern=ADDRESS), option(example="head:6379")] = AUTO
    """Ray workers that generate and observe: auto, local, none or a running Ray as host:port. `auto` takes the
    one that runs here or that RAY_ADDRESS names, else as `local`, which starts one on this machine for the run;
    `none` switches a cluster off."""
    workers: Annotated[
        Annotated[
            Literal["auto"] | Annotated[int, Field(ge=1, le=WORKERS)],
            takes(f"`auto` or an integer from 1 to {WORKERS}"),
        ],
        option(unit="workers", example=8),
    ] = AUTO
    """Most workers. `auto`: as many as GPUs, or cores, allow, also those of nodes that join."""
    gpus_per_worker: Annotated[
        Annotated[
            Literal["auto"] | Share | Annotated[float, Field(ge=2, le=64, multiple_of=1)],
            takes("`auto`, 0, a share of a GPU such as 0.5 or a number of GPUs"),
        ],
        option(unit="GPUs", example=0.5),
    ] = AUTO
    """GPUs of a worker. `auto`: one where the cluster has any and the images are not generated on a CPU; take a
    share to put two workers on one GPU."""
    cpus_per_worker: Annotated[int, Field(ge=1, le=4096), option(unit="CPUs", example=4)] = 1
    """CPUs of a worker."""
    mixed_devices: bool = False
    """Whether workers may have different kinds of GPU or CPU. They differ in the last bits of what they
    generate; run.json then says which there were."""
