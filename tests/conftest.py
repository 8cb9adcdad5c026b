"""Settings every test relies on: nothing from the network, as many threads as OMP_NUM_THREADS says, or one."""

import gc
import os
from collections import Counter

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"
os.environ["HF_DATASETS_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["MPLBACKEND"] = "Agg"  # also where a notebook's terminal sets another

import pytest

THREADS = int(os.environ["OMP_NUM_THREADS"].split(",")[0])
# What takes the longest goes first: by what the last run of all tests in this folder took, before one by this list.
# Processes that take a file at a time are done together only if no long one is left for the end; pytest-xdist's order,
# which `--no-loadscope-reorder` forgoes, would leave there what has few tests.
LONGEST = (
    "tests/test_same_bytes.py",
    "tests/test_notebooks.py",
    "tests/test_lost_parts.py",
    "tests/test_cli.py",
    "tests/test_trace.py",
    "tests/test_shards.py",
    "tests/test_recorded_paths.py",
    "tests/test_workers.py",
    "tests/probes/config/test_fuzz.py",
    "tests/test_stopping_observed.py",
    "tests/test_stopping.py",
    "tests/test_skills_images.py",
    "tests/test_contributing.py",
    "tests/test_faults.py",
    "tests/probes/toyworld/test_dependency_groups.py",
    "tests/probes/stages/test_generate.py",
    "tests/probes/models/test_model_faults.py",
    "tests/probes/runs/test_part_faults.py",
    "tests/analysis/report/test_objects.py",
    "tests/test_second_architecture.py",
    "tests/analysis/methods/test_registry.py",
    "tests/test_studies.py",
    "tests/analysis/report/test_page.py",
    "tests/test_types.py",
    "tests/hooks/test_transformers_elsewhere.py",
    "tests/hooks/test_patches_by_hand.py",
    "tests/hooks/test_attach.py",
    "tests/hooks/test_cases.py",
    "tests/hooks/architectures/test_transformer.py",
)
SECONDS = "triptych/seconds"  # in pytest's cache, by file
taken: Counter[str] = Counter()


def pytest_configure() -> None:
    """Give each of several test processes its share of the cores.

    A run that is asked for as many workers as cores then starts none that would take a core from the other tests.
    """
    name = os.environ.get("PYTEST_XDIST_WORKER", "")
    if name.removeprefix("gw").isdigit() and hasattr(os, "sched_setaffinity"):
        processes, cores = int(os.environ["PYTEST_XDIST_WORKER_COUNT"]), sorted(os.sched_getaffinity(0))
        number = int(name.removeprefix("gw")) % processes
        os.sched_setaffinity(0, cores[number::processes] or cores)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put first the files that took the longest when all were last run here; before that, those of `LONGEST`."""
    cache = getattr(config, "cache", None)  # there is none without pytest's plugin for it
    took = cache.get(SECONDS, {}) if cache else {}
    place = {file: number for number, file in enumerate(LONGEST)}

    def key(item: pytest.Item) -> tuple[float, int]:
        file = item.nodeid.split("::")[0]
        return -took.get(file, 0.0), place.get(file, len(place))

    items.sort(key=key)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up what each file takes, its fixtures included."""
    taken[report.nodeid.split("::")[0]] += report.duration


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Keep what the files took, where all were run: in the process that the others report to."""
    config, cache = session.config, getattr(session.config, "cache", None)
    options = config.option
    chosen = options.keyword or options.collectonly or "not slow" not in options.markexpr
    chosen = chosen or config.args_source is not pytest.Config.ArgsSource.TESTPATHS
    ended = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and not session.shouldfail
    if cache and ended and not chosen and not os.environ.get("PYTEST_XDIST_WORKER"):
        cache.set(SECONDS, {file: round(seconds, 1) for file, seconds in taken.items()})


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
