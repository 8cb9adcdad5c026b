"""Settings every test relies on: nothing from the network, as many threads as OMP_NUM_THREADS says, or one."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"
os.environ["HF_DATASETS_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["MPLBACKEND"] = "Agg"  # also where a notebook's terminal sets another

import pytest

from tests.runs import audit, tiny, tiny_copy, toyworld  # noqa: F401  (fixtures)

THREADS = int(os.environ["OMP_NUM_THREADS"].split(",")[0])
# What takes the longest goes first. Processes that take a file at a time are done together only if no long one is left
# for the end; pytest-xdist's order, which `--no-loadscope-reorder` forgoes, would leave there what has few tests. The
# first two need different runs of `tests.runs`.
LONGEST = (
    "tests/test_lost_parts.py",
    "tests/test_cli.py",
    "tests/test_trace.py",
    "tests/test_same_bytes.py",
    "tests/test_stopping.py",
    "tests/test_public_face.py",
    "tests/test_foreign.py",
    "tests/probes/models/test_single_file.py",
    "tests/test_imports.py",
    "tests/probes/models/test_transformer_models.py",
    "tests/test_plain_runs.py",
    "tests/analysis/studies/test_compare.py",
    "tests/probes/stages/test_generate.py",
    "tests/analysis/report/test_page.py",
    "tests/test_pages.py",
    "tests/probes/models/test_hub.py",
    "tests/probes/models/test_loading.py",
    "tests/hooks/test_attach.py",
    "tests/hooks/test_cases.py",
    "tests/test_foreign_code.py",
    "tests/test_cli_input.py",
)


LABORATORY = (Path(__file__).parent / "lab", Path(__file__).parents[1] / "lab")
TWO_WORKERS = ("tests/test_same_bytes.py",)  # these have all cores
CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def pytest_configure(config: pytest.Config) -> None:
    """Give each of several test processes its share of the cores, and do not collect what is deselected.

    A run that is asked for as many workers as cores then starts none that would take a core from the other tests.
    """
    if "not lab" in config.option.markexpr:
        config.option.ignore = [*(config.option.ignore or ()), *map(str, LABORATORY)]
    name = os.environ.get("PYTEST_XDIST_WORKER", "")
    if name.removeprefix("gw").isdigit() and hasattr(os, "sched_setaffinity"):
        processes, cores = int(os.environ["PYTEST_XDIST_WORKER_COUNT"]), sorted(os.sched_getaffinity(0))
        number = int(name.removeprefix("gw")) % processes
        os.sched_setaffinity(0, cores[number::processes] or cores)


@pytest.fixture(autouse=True, scope="module")
def all_cores_for_two_workers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Take away the share of `pytest_configure` where a test is about two workers."""
    share = os.sched_getaffinity(0) if CORES else set()
    unshared = CORES and request.path.relative_to(request.config.rootpath).as_posix() in TWO_WORKERS
    if unshared:
        os.sched_setaffinity(0, CORES)
    yield
    if unshared:
        os.sched_setaffinity(0, share)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files of `LONGEST` first, and the laboratory's behind its mark."""
    for item in items:
        if any(map(item.path.is_relative_to, LABORATORY)) and not item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.lab)
    place = {file: number for number, file in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.nodeid.split("::")[0], len(place)))


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of the garbage collector's rounds: it stays until the end."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let it be collected again: what is frozen when Python ends is never freed, and nanobind says so."""
    gc.unfreeze()


@pytest.fixture(autouse=True)
def threads() -> None:
    """Small tensors run faster on one thread; whoever asks for more gets them in every test.

    Set anew for each test, as command lines with ``--threads`` leave their own behind.
    """
    import torch

    if torch.get_num_threads() != THREADS:
        torch.set_num_threads(THREADS)
