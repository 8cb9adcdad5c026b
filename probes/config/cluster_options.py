"""The section ``cluster`` of ``triplets.yaml``: a Ray cluster whose workers generate and observe the images."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from probes.config.types import ADDRESS, Section, Share

WORKERS = 100_000  # of a cluster
AUTO, LOCAL, NONE = "auto", "local", "none"


class Cluster(Section):
    """Workers of a Ray cluster, each of which makes whole parts of a run; none of it alters a byte that is stored.

    `address` is that of a running Ray (``host:port``); ``auto``: the one that is running here or that ``RAY_ADDRESS``
    names, else as ``local``, which starts one on this machine for as long as the run takes; ``none``: no cluster.
    `workers` is how many at most; ``auto``: as many as GPUs, or cores, allow, also those of nodes that join. Each
    takes so many GPUs (``auto``: one where the cluster has any and the images are not generated on a CPU) and CPUs.
    Workers with another kind of GPU (or of CPU, where they generate on one) than the first are refused, as the last
    bits of what they generate differ, unless `mixed_devices`: ``run.json`` then says which there were.
    """

    address: Annotated[str, Field(pattern=ADDRESS)] = AUTO
    workers: Annotated[
        Literal["auto"] | Annotated[int, Field(ge=1, le=WORKERS)],
        Field(description=f"`auto` or an integer from 1 to {WORKERS}"),
    ] = AUTO
    gpus_per_worker: Annotated[
        Literal["auto"] | Share | Annotated[float, Field(ge=2, le=64, multiple_of=1)],
        Field(description="`auto`, 0, a share of a GPU such as 0.5 or a number of GPUs"),
    ] = AUTO
    cpus_per_worker: Annotated[int, Field(ge=1, le=4096)] = 1
    mixed_devices: bool = False
