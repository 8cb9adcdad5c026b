"""The stages of a run, in their order: what ``triptych run`` and `triptych.run` do."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

from analysis.metrics.registry import Metric, require_primary
from probes.config.schema import Config
from probes.errors import UserError, printable
from probes.execution import signals, workers
from probes.execution.claim import claim
from probes.execution.loop import StageCall
from probes.execution.processes import Helpers, loading_libraries
from probes.locks import GATE, MEASURING, locked
from probes.runs import directory as runs_directory
from probes.runs import image_faults
from probes.runs.missing import require_whole
from probes.runs.run import Run
from triptych.request import Command, Request, read_request
from triptych.run_plan import RunPlan, make_plan

if TYPE_CHECKING:
    from analysis.observe.observer import Observer
    from probes.execution.on_ray import RayWorkers


def run(command: Command) -> Config:
    """Do what a command asks; return the configuration as it was planned."""
    with Helpers() as helpers:
        return _run_once(read_request(command), helpers)


def planned(command: Command) -> tuple[RunPlan, list[str]]:
    """Return the plan of a dry command, and its lines: what is to be generated and observed, and what it will take."""
    request = read_request(command)
    with request.naming():
        primary = _primary(request)
        _require_possible(request)
        plan, observers, skipped = _planned(request, primary)
        return plan, _described(command, plan, observers, skipped)


def _planned(request: Request, primary: Metric) -> tuple[RunPlan, Sequence[Observer], Sequence[str]]:
    """The plan of a request, and who observes its images or why not."""
    with loading_libraries():
        plan = make_plan(request)
        return plan, *_observers(request, plan.config, primary)


def _described(
    command: Command, plan: RunPlan, observers: Sequence[Observer], skipped: Sequence[str]
) -> list[str]:
    looking = [printable(f"observe: {line}") for line in (*observers, *skipped)]
    return [*plan.described(samples=command.samples), *looking]


def _run_once(request: Request, helpers: Helpers) -> Config:
    """Plan what a command asks for and go through its stages; gives the configuration as it was planned."""
    with request.naming():
        return _planned_and_done(request, helpers)


def _planned_and_done(request: Request, helpers: Helpers) -> Config:
    primary = _primary(request)
    _require_possible(request)
    _start_helpers(request, helpers)
    plan, observers, skipped = _planned(request, primary)
    if request.dry:
        print("\n".join(_described(request.command, plan, observers, skipped)))
        return plan.config
    _say_skipped(request, observers, skipped)
    signals.raise_from_here()
    alone = request.command.overwrite and request.includes("plan", "generate", "observe", "trace")
    with claim(plan.config.out_path, alone=alone) as directory:
        done = _Work(request, plan, directory, helpers).through()
    request.announce(done)
    return plan.config


def _primary(request: Request) -> Metric:
    """The measure that the configuration leads with."""
    config = request.config
    return require_primary(
        config.measure.primary, request.place("measure.primary"), opened=config.images is None
    )


def _require_possible(request: Request) -> None:
    """Refuse what this installation cannot do, before the libraries of a model are loaded."""
    if request.clustered and not request.dry:
        flag, _ = request.command.chosen.get(("cluster", "address"), (request.place("cluster"), None))
        workers.require_cluster(request.config, flag)
    if request.config.preset and request.includes("observe"):
        from analysis.observe.missing import require_preset

        require_preset(request.config)


def _start_helpers(request: Request, helpers: Helpers) -> None:
    """Let helpers load what the first stage takes, while this process plans."""
    if request.dry:
        return
    here = request.includes("generate") and not request.clustered
    if here and not (request.config.out_path / "run.json").exists():
        helpers.start(workers.expected_workers(request.config))
    if request.stages in (("measure",), ("report",)):
        _load(request.stages[0], request.config, helpers)


def _load(stage: str, config: Config, helpers: Helpers) -> None:
    """Let helpers load what measures, or what plots, while this process does."""
    library = {"measure": "analysis.tables.stage", "report": "analysis.report.saving"}[stage]
    helpers.start(workers.result_workers(config, stage), library)


def _observers(request: Request, config: Config, primary: Metric) -> tuple[Sequence[Observer], Sequence[str]]:
    """Return the observers, and lines on those that cannot be used: known before any image is generated."""
    chosen: Sequence[Observer] = ()
    skipped: Sequence[str] = ()
    missing: Mapping[str, str] = {}
    if request.includes("observe"):
        from analysis.observe.registry import observers, why_not

        chosen, missing = observers(config)
        skipped = why_not(missing)
    if primary.needs == "features":
        from analysis.observe.missing import require_primary_feature

        require_primary_feature(config, request.place("measure.primary"), missing)
    return chosen, skipped


def _say_skipped(request: Request, observers: Sequence[Observer], skipped: Sequence[str]) -> None:
    """Say who does not look; refuse the stage observe alone where nobody does."""
    if skipped and not observers and request.command.stage:
        raise UserError(f"observe: {'; '.join(skipped)}")
    for line in skipped if observers else ():
        request.say(f"observe: {line}")


def _next(stage: str | None, path: object) -> str:
    """The command that shows what a stage has made, or that makes what it lacks."""
    folder, after = shlex.quote(str(path)), {"generate": "observe", "observe": "measure", "trace": "measure"}
    if stage in after:
        return f"triptych run {folder} --stage {after[stage]}"
    return f"triptych report {folder}"


@dataclass(frozen=True)
class _Work:
    """The stages of a command on a run directory, which other processes may work on, too."""

    request: Request
    plan: RunPlan
    run: Run
    helpers: Helpers

    def through(self) -> str:
        """Go through the stages in their order; gives a line on what was done."""
        request = self.request
        self.require_same()
        if request.stages == ("plan",):
            return self.write_plan()
        with self.cluster() as cluster:
            if request.includes("generate"):
                self.generate(cluster)
            else:
                self.resume()
            if request.includes("observe"):
                self.observe(cluster)
            if request.includes("trace"):
                self.trace(cluster)
        path = self.plan.config.out_path
        if request.includes("measure", "report"):
            with locked(path / MEASURING, wait=False, remove=True) as free:
                return self.results() if free else self.leave("measures and reports")
        return self.done()

    def results(self) -> str:
        """Measure and report, unless another process has done so meanwhile; gives a line on what was done."""
        request = self.request
        if request.includes("generate"):  # no part is missing
            self.run.read_again()
            if self.run.status == "complete":
                return self.leave("has measured and reported")
        if request.includes("measure"):
            self.measure()
        return self.report() if request.includes("report") else self.done()

    def leave(self, what: str) -> str:
        """Leave the rest to another process: an error where it was all that was asked for, else a line on it."""
        line = f"{self.run.path}: every part is there, and another process {what}"
        if not self.request.includes("generate"):
            raise UserError(
                f"{self.run.path}: expected to be the only one measuring here, found another process that {what}:"
                " let it end first"
            )
        return line

    def done(self) -> str:
        """A line on the one stage that was done."""
        stage, path = self.request.command.stage, self.plan.config.out_path
        return f"{stage}: done in {path}; next: {_next(stage, path)}"

    def require_same(self) -> None:
        """Refuse a directory that holds another run, unless that is to be replaced."""
        request = self.request
        if not (request.command.overwrite and request.drawing):
            runs_directory.require_same(
                self.run,
                self.plan.config.resolved(),
                observing_anew=request.replaces("observe"),
                tracing_anew=request.replaces("trace"),
            )

    def write_plan(self) -> str:
        """Record what is to be generated."""
        request, plan = self.request, self.plan
        overwrite = request.command.overwrite
        with locked(self.run.path / GATE):
            if not overwrite:
                self.run.read_again()
            runs_directory.write_plan(
                self.run,
                plan.config,
                request.passed,
                request.text,
                plan.images,
                captions=plan.captions,
                overwrite=overwrite,
            )
        path = self.run.path
        return f"planned {plan.images} images in {path}; next: triptych run {shlex.quote(str(path))}"

    @contextlib.contextmanager
    def cluster(self) -> Iterator[RayWorkers | None]:
        """Hold the cluster whose workers generate and observe images; None where this machine alone does."""
        if not self.request.clustered:
            yield None
            return
        from probes.execution import on_ray

        with on_ray.connected(self.plan.config, progress=self.progress) as cluster:
            yield cluster

    @property
    def progress(self) -> bool:
        return not self.request.command.quiet

    def generate(self, cluster: RayWorkers | None) -> None:
        """Draw the images of the plan, as many as its question takes, or take in those of another program."""
        request, plan = self.request, self.plan
        command = StageCall(
            request.passed,
            request.text,
            request.command.overwrite,
            self.progress,
            plan.captions,
            self.helpers,
            cluster,
        )
        if plan.taken:
            from probes.stages.external_images.stage import take_in

            take_in(self.run, plan.config, plan.taken, command)
        else:
            if plan.config.stop is not None:
                from analysis.methods.stopping.generation import generate_until_answered as generate
            else:
                from probes.stages.generate import generate

            assert plan.source is not None
            generate(self.run, plan.config, plan.samples, plan.source, command)
        if faulty := self.run.meta.get("faults"):
            request.say(image_faults.sentence(faulty, self.run.meta["images"], [*self.run.faults()]))

    def resume(self) -> None:
        """Go on with a run whose images are there."""
        request = self.request
        runs_directory.resume(
            self.run, self.plan.config, request.stages[0], passed=request.passed, text=request.text
        )
        if request.replaces("observe"):
            runs_directory.remove(self.run, runs_directory.OBSERVED)

    def observe(self, cluster: RayWorkers | None) -> None:
        """Observe the images."""
        from analysis.observe.stage import observe

        began = monotonic()
        skipped = observe(self.run, progress=self.progress, helpers=self.helpers, cluster=cluster)
        if skipped:
            self.request.say(f"observe: {skipped}")
            return
        runs_directory.record_stage(self.run, "observed", monotonic() - began)

    def trace(self, cluster: RayWorkers | None) -> None:
        """Generate images with patched activations."""
        from probes.stages.trace.stage import forget, trace

        if self.request.replaces("trace"):
            forget(self.run)
        command = StageCall(progress=self.progress, helpers=self.helpers, cluster=cluster)
        assert self.plan.source is not None
        trace(self.run, self.plan.source, self.plan.samples[: self.run.meta["images"]], command)
        traced = self.run.meta["trace"]
        if traced["faults"]:
            self.request.say(f"trace: {image_faults.sentence(traced['faults'], traced['rows'])}")

    def measure(self) -> None:
        """Write the tables of the run."""
        config = self.plan.config
        _load("measure", config, self.helpers)
        from analysis.tables.stage import measure

        began = monotonic()
        require_whole(self.run)
        what = "comparing pairs, resampling prompts" if config.compares else "counting, resampling prompts"
        self.request.say(f"measure: {what}")
        measure(self.run, helpers=self.helpers, processes=workers.result_workers(config, "measure"))
        runs_directory.record_stage(self.run, "measured", monotonic() - began)

    def report(self) -> str:
        """Write the report of the run; gives a line on where it stands."""
        config = self.plan.config
        _load("report", config, self.helpers)
        from analysis.export.cards.card import write_dataset_card
        from analysis.report.page import answers, report

        began = monotonic()
        self.request.say("report: drawing figures")
        page = report(self.run, helpers=self.helpers, processes=workers.result_workers(config, "report"))
        if left := write_dataset_card(self.run):
            self.request.say(f"report: {left}")
        runs_directory.record_stage(self.run, "complete", monotonic() - began)
        for line in answers(self.run):
            self.request.announce(line)
        return f"report: {page}"
