"""Sizes of batches: chosen when a run begins, and halved where the device has no room.

A batch's size may alter the last bits of what is drawn, so each part carries the size it was drawn with as a field of
its identity. Parts that are finished when a batch is halved stay as they are; all others are drawn with the new size,
also when the run goes on later, since ``run.json`` holds the sizes that were used (``batch_triplets``). A run without
such a halving holds one size, and the same bytes every time.
"""

from __future__ import annotations

import gc
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from hooks.architectures.registry import architecture_of
from probes.config.schema import Config
from probes.errors import UserError
from probes.execution.part import Part
from probes.models import loading
from probes.models.requirements import image_size
from probes.runs.parts import DamagedPartError, disk_error, read_identity
from probes.runs.store import Run


@dataclass(frozen=True)
class Counted:
    """Unit of a stage's batches."""

    stage: str
    what: str  # for messages
    field: str  # their size in the identity of a part
    used: str  # the sizes used in `run.json`
    minimum: int  # fewer are no batch


TRIPLETS = Counted("generate", "triplets", "generate.batch_triplets", "batch_triplets", 1)
FIELD, USED = TRIPLETS.field, TRIPLETS.used
# Images of 64x64 latents that one batch may hold. On a CPU core, with the bundled model, batches of 30 images of
# 16x16 latents are some 5 % faster than batches of 15 and take twice the memory. The bytes an image takes on a GPU
# are measured when a run begins (`probes.stages.drawing.image_bytes`); before, and by a cluster, these are assumed.
_CPU_IMAGES = 1.0
_GPU_BYTES_PER_IMAGE = 2.5e9
_REFERENCE_AREA = 64 * 64
# what torch says without an error of a kind of its own
_NO_ROOM = ("DefaultCPUAllocator", "MPS backend out of memory")


def auto_batch(
    loaded: loading.LoadedModel, members: int, config: Config, image_bytes: float | None = None
) -> int:
    """Draws per batch that the device holds comfortably, at least one and at most a part.

    On a CPU the batch is about as large as one image of 64x64 latents; on a GPU half of the free memory is
    used.
    """
    images = auto_images(loaded.pipe, loaded.device, config, image_bytes)
    return max(1, min(math.floor(images / members), config.generate.part_triplets))


def auto_images(pipe: Any, device: str, config: Config, image_bytes: float | None = None) -> float:
    """Images per batch that a device holds comfortably; may be less than one. The pipeline needs no weights.

    An image takes `image_bytes` on a GPU, where they were measured.
    """
    height, width = architecture_of(pipe).latent_size(pipe, *image_size(pipe, config))
    share = height * width / _REFERENCE_AREA
    if device.startswith("cuda"):
        free, _ = torch.cuda.mem_get_info(torch.device(device))
        return float(0.5 * free / (image_bytes or _GPU_BYTES_PER_IMAGE * share))
    return _CPU_IMAGES / share


def used_sizes(run: Run, first: int, counted: Counted = TRIPLETS) -> list[int]:
    """Return the sizes that a run was drawn with, `first` being that of its configuration; last the one in force."""
    before = run.meta.get(counted.used)
    return list(before) if isinstance(before, list) and before and before[0] == first else [first]


def size_of(paths: Iterable[Path], sizes: Sequence[int], counted: Counted = TRIPLETS) -> int:
    """Return the size that a part was drawn with, as its files say; of one that is not there, the one in force."""
    for path in paths if len(sizes) > 1 else ():
        try:
            size = read_identity(path)["fields"].get(counted.field) if path.exists() else None
        except DamagedPartError:
            continue
        if size in sizes:
            return int(size)
    return sizes[-1]


def fits_on_device(make: Callable[[], None]) -> bool:
    """Make what there is to make; False where the device has no room for a batch.

    What the attempt has taken is free again when this returns.
    """
    try:
        make()
        return True
    except (RuntimeError, MemoryError) as error:
        if not no_room(error):
            raise
    gc.collect()  # what the frames of the attempt held
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return False


def no_room(error: BaseException) -> bool:
    """Return whether an error says that the device has no room for a batch."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return any(phrase in str(error) for phrase in _NO_ROOM)


def halve(
    run: Run,
    config: Config,
    sizes: Sequence[int],
    left: Sequence[Part],
    most: int,
    counted: Counted = TRIPLETS,
) -> list[int]:
    """Record that the parts that are left are drawn with batches of half the size; returns the sizes used, that last.

    No batch holds more than `most`, whatever its size. Files of parts that are not finished are removed.
    """
    size = min(sizes[-1], most)
    if size <= counted.minimum:
        raise UserError(
            f"{run.path}: expected room on the device for {_smallest(config, counted)}, found too little:"
            f"{_remedy(config)} finished parts are kept"
        )
    after = [*sizes, max(counted.minimum, size // 2)]
    for part in left:
        if not all(path.exists() for path in part.paths.values()):
            _remove(part.paths.values())
    run.write_meta(**{counted.used: after})
    print(
        f"{counted.stage}: no room on the device for {size} {counted.what} at a time: goes on with {after[-1]}, as"
        " run.json says",
        file=sys.stderr,
    )
    return after


def _smallest(config: Config, counted: Counted) -> str:
    if counted is TRIPLETS:
        return f"the {len(config.indicators)} images of one triplet and seed"
    return f"{counted.minimum} {counted.what}"


def _remedy(config: Config) -> str:
    half = " use --dtype float16, smaller --height and --width (both with another --out), or"
    return f"{half if config.generate.dtype == 'float32' else ''} free its memory and run again,"


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise disk_error(path, error) from None


def fields_of(fields: dict[str, Any], size: int, counted: Counted = TRIPLETS) -> dict[str, Any]:
    """Return the fields of a part's identity that was drawn with batches of this size."""
    return {**fields, counted.field: size}
