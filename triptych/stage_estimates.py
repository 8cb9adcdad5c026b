"""What each stage of a run will take, for ``--dry-run``: arithmetic over a calibration of this machine.

The work of a stage is counted in units that are timed here (`probes.stages.calibration`): steps of an image of the
smallest bundled model where networks run, and a fixed script where tables and figures are made. How many units a stage
takes is a ratio of two times measured together, and so no property of one processor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from probes.config.schema import Config
from probes.execution import workers
from probes.models.estimate import Pace, duration

if TYPE_CHECKING:
    from analysis.observe.observer import Observer

PIXELS = 512 * 512  # of an image whose size is not known
_STEP = 0.03  # a step's, where an observer's seconds are as stated: measured beside one another
# units of the script, measured beside it on the default run (216 images of 24 triplets): of a process that begins a
# stage; of measuring as a whole, in one process, and of each image; of a report as a whole, in one process (figures are
# drawn, the page is filled), of its figures written out, and of an image on it
_START, _MEASURE, _MEASURE_IMAGE = 20.0, 60.0, 0.4
_REPORT, _FIGURES, _REPORT_IMAGE = 110.0, 260.0, 0.1
# of an image in the gallery, and of a million pixels of it: read, reduced and written again
_GALLERY_IMAGE, _GALLERY_PIXELS = 0.06, 2.4


def seconds(
    config: Config, images: int, observers: Sequence[Observer], pace: Pace, pixels: int = PIXELS
) -> dict[str, float]:
    """Return the seconds that observing, measuring and the report will take, on a machine that does nothing else.

    Parameters
    ----------
    config
        The configuration.
    images
        Their number.
    observers
        Who observes them; of one that runs on a GPU the time is not known, and left out.
    pace
        Of one core of this machine.
    pixels
        Of an image; the gallery of all triplets reads each.
    """
    cores = workers.cores()
    found = {}
    looking = [needs for needs in (one.needs() for one in observers) if needs.device == "cpu"]
    if looking:
        core = sum(needs.seconds for needs in looking) * images * pace.step / _STEP
        count = min(cores, workers.expected_workers(config))
        found["observe"] = core / count + len(looking) * _START * pace.script
    measuring = min(cores, workers.measure_workers(config))
    found["measure"] = (_START + _MEASURE + images * _MEASURE_IMAGE / measuring) * pace.script
    drawing = min(cores, workers.report_workers(config))
    shared = _FIGURES + images * _REPORT_IMAGE
    if config.report.all_triplets:
        shared += images * (_GALLERY_IMAGE + _GALLERY_PIXELS * pixels / 1e6)
    found["report"] = (_START + _REPORT + shared / drawing) * pace.script
    return found


def line(stages: Mapping[str, float]) -> str:
    """Return the stages in a line, with their sum.

    Examples
    --------
    >>> line({"generate": 80.0, "measure": 9.6})
    'about 90 s: generate 80 s, measure 10 s'
    """
    each = ", ".join(f"{stage} {duration(value)}" for stage, value in stages.items())
    return f"about {duration(sum(stages.values()))}: {each}"
