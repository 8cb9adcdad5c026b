"""Part files of a run, by what its record says; and the names of kinds of parts.

``run.json`` says which kinds of parts a run has and how many of each (`KINDS`), and of a run that was measured
unfinished which of them were there (`KEY`, see `probes.runs.completeness`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

KEY = "unfinished"  # of run.json
KINDS = "kinds"  # of run.json: how many parts of each
REGISTERED = "stopping"  # of run.json: the question that ends a run
STOPPED = "stopped_after"  # of run.json: the parts and images after which a run stopped
DRAWN, TRACED = "samples", "traced"
BESIDE_SAMPLES = ("captures", "words")  # of the same images; without them these are not spoken of
OBJECTS = ("objects", "observed")  # kinds of one observer
NESTED = ("features/", "attributes/")
UNMEASURED = ("kept", "pooled")  # no table is made of them
TEXTS = ("_texts", "_prompts")  # end a kind of a run, not of its images


def number(file: Path) -> int:
    """The number of a part, by the name of its file."""
    return int(re.sub(r"\D", "", file.stem))


def restricted(meta: Mapping[str, Any], kind: str, files: Sequence[Path]) -> list[Path]:
    """Those part files of a kind that a run speaks of: as many as it is to have, less those that are not whole."""
    if kind.endswith(TEXTS):
        return list(files)
    counts = meta.get(KINDS)
    most = counts.get(kind) if isinstance(counts, Mapping) else None  # who made parts by hand may not say
    if isinstance(most, int):
        files = [file for file in files if number(file) < most]  # more are of another run, or the user's
    noted = meta.get(KEY)
    if not noted:
        return list(files)
    chosen = numbers(noted_list(noted, kind))
    return [file for file in files if number(file) in chosen]


def noted_list(noted: Mapping[str, Any], kind: str) -> str:
    """The numbers of the parts of a kind that were there, as text."""
    lists = noted["parts"]
    return str(lists.get("observed" if kind in OBJECTS else kind, lists[DRAWN]))


@lru_cache(maxsize=64)
def numbers(text: str) -> frozenset[int]:
    """The numbers that a text such as ``0-2,5`` names (`probes.runs.completeness.snapshot`)."""
    ends = [[int(one) for one in some.split("-")] for some in text.split(",") if some]
    return frozenset(one for some in ends for one in range(some[0], some[-1] + 1))
