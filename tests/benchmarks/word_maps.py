"""What word maps cost, beside the bare pipeline and DAAM: ``python -m tests.benchmarks.word_maps``.

One pipeline of random weights is drawn with in turn, repetition by repetition: bare, with the probe's word maps alone,
with the probe as the default run uses it (batches of whole triplets), and with daam 0.2.0 (one prompt at a time, as
it must). With `--daam-python` daam runs in a process of its own environment, on the same saved weights, held against
the bare pipeline of that same process.
A ratio is a mode's time over the bare time of the same repetition; the median, its 95 % interval and the extremes are
given.

Peak memory is of a GPU, torch's largest allocation during a draw; the figure is what a mode adds to the bare one, for
each image.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from scipy.stats import binom

from tests.benchmarks import architectures

HERE = Path(__file__).resolve().parent
WORKER = HERE / "worker.py"
VERSION = 2


class Worker:
    """A process of `tests/benchmarks/worker.py`."""

    def __init__(self, python: Path | str, case: dict[str, Any]) -> None:
        self._process = subprocess.Popen(
            [str(python), str(WORKER), json.dumps(case)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.versions = self._answer()["versions"]

    def run(self, mode: str, **more: Any) -> dict[str, Any]:
        """One draw, measured."""
        self._process.stdin.write(json.dumps({"mode": mode, **more}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()

    def _answer(self) -> dict[str, Any]:
        for line in self._process.stdout:
            if line.startswith("{"):  # anything else is a library's chatter
                return json.loads(line)
        raise SystemExit(f"the benchmark's process ended with status {self._process.wait()}")


def machine(device: str, threads: int | None = None) -> str:
    """The machine in words: its GPU, or its processor and the threads in use."""
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(torch.device(device))
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    count = threads or torch.get_num_threads()
    return f"{names[0] if names else platform.processor()}, {count} thread{'s' * (count > 1)}"


def modes_of(case: dict[str, Any]) -> list[str]:
    """Modes of our own that a batch allows: the default run needs whole triplets."""
    return ["bare", "words", *(["default"] if case["batch"] % 3 == 0 else [])]


def measure(case: dict[str, Any], *, repetitions: int, daam_python: Path | None = None) -> dict[str, Any]:
    """All figures of one case, as `tests/benchmarks/worker.py` takes it; daam's side needs `case["folder"]`."""
    groups = [("ours", sys.executable, modes_of(case))]
    if daam_python is not None:
        groups.append(("daam", daam_python, ["bare", "daam"]))
    workers = {name: Worker(python, case) for name, python, _ in groups}
    plan = [(name, mode) for name, _, modes in groups for mode in modes]
    try:
        return measure_with(workers, plan, case, repetitions)
    finally:
        for worker in workers.values():
            worker.close()


def measure_with(
    workers: dict[str, Worker], plan: list[tuple[str, str]], case: dict[str, Any], repetitions: int
) -> dict[str, Any]:
    """Times, image differences and, on a GPU, memory of modes drawn in turn; each process of the plan has `bare`."""
    call = {"steps": case["steps"], "batch": case["batch"]}
    for name, mode in plan:
        workers[name].run(mode, **call | {"steps": 1})
    found: dict[tuple[str, str], list[dict[str, Any]]] = {key: [] for key in plan}
    for repetition in range(repetitions):
        # every second time backwards, so that a drift of the machine's speed cancels; bare stays first of its
        # process, since images are compared with it
        for name, mode in plan if repetition % 2 == 0 else _backwards(plan):
            answer = workers[name].run(mode, **call)
            if "error" in answer:
                raise SystemExit(f"{name}:{mode}: {answer['error']}: {answer['detail']}")
            found[name, mode].append(answer)
    modes = {}
    for (name, mode), answers in found.items():
        modes[f"{name}:{mode}"] = _times(answers, found[name, "bare"])
        if case["device"].startswith("cuda"):
            peaks, bare = ([a["peak_mib"] for a in found[name, m]] for m in (mode, "bare"))
            modes[f"{name}:{mode}"] |= _memory(peaks, bare, case["batch"])
    return {
        "case": {key: value for key, value in case.items() if key != "folder"},
        "repetitions": repetitions,
        "versions": {name: worker.versions for name, worker in workers.items()},
        "modes": modes,
    }


def _backwards(plan: list[tuple[str, str]]) -> list[tuple[str, str]]:
    bare = [key for key in plan if key[1] == "bare"]
    return bare[::-1] + [key for key in plan[::-1] if key[1] != "bare"]


def _times(answers: list[dict[str, Any]], bare: list[dict[str, Any]]) -> dict[str, Any]:
    seconds = [answer["seconds"] for answer in answers]
    ratios = [answer["seconds"] / reference["seconds"] for answer, reference in zip(answers, bare)]
    differences = [a["image_difference"] for a in answers if a["image_difference"] is not None]
    return {
        "seconds": [round(value, 4) for value in seconds],
        "ratio": round(statistics.median(ratios), 4),
        **dict(zip(("ratio_low", "ratio_high"), median_interval(ratios))),
        "ratio_least": round(min(ratios), 4),
        "ratio_largest": round(max(ratios), 4),
        "image_difference": max(differences, default=None),
    }


def median_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """Interval of the median between two of the sorted values, at least of that level where there are six or more."""
    ordered = sorted(values)
    rank = max(int(binom.ppf((1 - level) / 2, len(ordered), 0.5)), 1)
    return round(ordered[rank - 1], 4), round(ordered[-rank], 4)


def _memory(peaks: list[float], bare: list[float], batch: int) -> dict[str, Any]:
    return {
        "peak_mib": round(statistics.median(peaks), 1),
        "extra_mib_an_image": round((statistics.median(peaks) - statistics.median(bare)) / batch, 2),
    }


def record(figures: dict[str, Any], device: str, threads: int | None) -> dict[str, Any]:
    """The figures of a case with the machine and the day."""
    return {
        "benchmark": "word_maps",
        "version": VERSION,
        "machine": machine(device, threads),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        **figures,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.word_maps", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--architecture", default="sd14", choices=architectures.ARCHITECTURES)
    parser.add_argument("--width", type=float, default=0.25, help="factor on the number of channels")
    parser.add_argument("--size", type=int, default=512, help="pixels")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument(
        "--batch", type=int, default=1, help="images at once; whole triplets include the default run"
    )
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--guidance-scale", type=float, default=7.5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", choices=("float32", "float16", "bfloat16"))
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--daam-python", type=Path, help="interpreter of an environment that has daam 0.2.0")
    parser.add_argument("--out", type=Path, help="where to write the figures as JSON")
    options = parser.parse_args(argv)
    build = {"architecture": options.architecture, "width": options.width, "size": options.size}
    names = ("size", "steps", "batch", "guidance_scale", "device", "dtype", "threads")
    case = {name: getattr(options, name) for name in names} | {"build": build}
    with tempfile.TemporaryDirectory() as folder:
        if options.daam_python:
            architectures.save(architectures.build(**build), Path(folder))
            case["folder"] = folder
        figures = measure(case, repetitions=options.repetitions, daam_python=options.daam_python)
    text = json.dumps(record(figures, options.device, options.threads), indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
