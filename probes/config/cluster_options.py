"""The section ``cluster`` of ``triplets.yaml``: a Ray cluster whose workers draw and look at the images."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from probes.config.section import Section
from probes.config.types import HINT, fail, shown

WORKERS = 100_000  # of a cluster
AUTO, LOCAL, NONE = "auto", "local", "none"


def _address(value: str) -> str:
    if value in (AUTO, LOCAL, NONE) or re.fullmatch(r"(\[[0-9A-Fa-f:.%\w]+\]|[\w.-]+):\d{1,5}", value):
        return value
    raise fail(
        f"expected auto, local, none or the address of a running Ray as host:port, got {shown(value)}:"
        " choose one of them"
    )


def _workers(value: Any) -> Any:
    if value == AUTO or (type(value) is int and 1 <= value <= WORKERS):
        return value
    raise fail(
        f"expected `auto` or an integer from 1 to {WORKERS}, got {shown(value)}{HINT}: choose one of them"
    )


def _gpus(value: Any) -> Any:
    if value == AUTO or (type(value) in (int, float) and (0 <= value <= 1 or value in range(2, 65))):
        return value
    raise fail(
        f"expected `auto`, 0, a share of a GPU such as 0.5 or a number of GPUs, got {shown(value)}{HINT}: choose one"
        " of them"
    )


class Cluster(Section):
    """Workers of a Ray cluster, each of which makes whole parts of a run; none of it alters a byte that is stored.

    `address` is that of a running Ray (``host:port``); ``auto``: the one that is running here or that ``RAY_ADDRESS``
    names, else as ``local``, which starts one on this machine for as long as the run takes; ``none``: no cluster.
    `workers` is how many at most; ``auto``: as many as GPUs, or cores, allow, also those of nodes that join. Each
    takes so many GPUs (``auto``: one where the cluster has any and the images are not drawn on a CPU) and CPUs.
    Workers with another kind of GPU (or of CPU, where they draw on one) than the first are refused, as the last bits of
    what they draw differ, unless `mixed_devices`: ``run.json`` then says which there were.
    """

    address: Annotated[str, AfterValidator(_address)] = AUTO
    workers: Annotated[
        int | Literal["auto"],
        BeforeValidator(
            _workers, json_schema_input_type=Annotated[int, Field(ge=1, le=WORKERS)] | Literal["auto"]
        ),
    ] = AUTO
    gpus_per_worker: Annotated[
        float | Literal["auto"],
        BeforeValidator(_gpus, json_schema_input_type=Annotated[float, Field(ge=0, le=64)] | Literal["auto"]),
    ] = AUTO
    cpus_per_worker: Annotated[int, Field(ge=1, le=4096)] = 1
    mixed_devices: bool = False
