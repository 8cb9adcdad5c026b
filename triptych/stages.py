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
from probes.execution import shards, signals, workers
from probes.execution.command import StageCall
from probes.execution.shards import SharedRun
from probes.execution.team import Team, loading_libraries
from probes.runs import directory as runs_directory
from probes.runs import image_faults
from probes.runs.missing import require_whole
from probes.runs.run import Run
from probes.storage.claim import HeldError, claim
from triptych.request import Command, Request, read_request, require_shareable
from triptych.run_plan import RunPlan, make_plan

if TYPE_CHECKING:
    from analysis.observe.observer import Observer
    from probes.execution.cluster.driver import ClusterWorkers


def run(command: Command) -> Config:
    """Do what a command asks; return the configuration as it was planned."""
    shard = shards.parse_shard(command.shard, command.stage, overwrite=command.overwrite)
    with Team() as team:
        config = _run_once(read_request(command, shard), team)
        if command.dry:
            return config
        if shard and command.stage is None and shards.is_complete(config.out_path, shard):
            with contextlib.suppress(HeldError):  # another one finishes it
                _run_once(read_request(command, finishing=True), team)
        while command.stage == "measure" and shards.became_complete(config.out_path):
            _run_once(read_request(command), team)
    return config


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


def _run_once(request: Request, team: Team) -> Config:
    """Plan what a command asks for and go through its stages; gives the configuration as it was planned."""
    with request.naming():
        return _planned_and_done(request, team)


def _planned_and_done(request: Request, team: Team) -> Config:
    primary = _primary(request)
    _require_possible(request)
    _start_helpers(request, team)
    plan, observers, skipped = _planned(request, primary)
    if request.dry:
        print("\n".join(_described(request.command, plan, observers, skipped)))
        return plan.config
    _say_skipped(request, observers, skipped)
    signals.raise_from_here()
    with claim(plan.config.out_path, request.hold) as directory:
        directory = SharedRun(directory, request.shard) if request.shard else directory
        done = _Work(request, plan, directory, team).through()
    request.announce(done)
    return plan.config


def _primary(request: Request) -> Metric:
    """The measure that the configuration leads with."""
    config = request.config
    return require_primary(
        config.measure.primary, request.place("measure.primary"), opened=config.images is None
    )


def _require_possible(request: Request) -> None:
    """Refuse what this installation or a shard cannot do, before the libraries of a model are loaded."""
    require_shareable(request)
    if request.clustered and not request.dry:
        from probes.execution.cluster import driver

        flag, _ = request.command.chosen.get(("cluster", "address"), (request.place("cluster"), None))
        driver.require(request.config, flag)
    if request.config.preset and request.includes("observe"):
        from analysis.observe.missing import require_preset

        require_preset(request.config)


def _start_helpers(request: Request, team: Team) -> None:
    """Let helpers load what the first stage takes, while this process plans."""
    if request.dry:
        return
    here = request.includes("generate") and not request.clustered
    if here and not (request.config.out_path / "run.json").exists():
        team.start(workers.expected_workers(request.config))
    if request.stages in (("measure",), ("report",)):
        _load(request.stages[0], request.config, team)


def _load(stage: str, config: Config, team: Team) -> None:
    """Let helpers load what measures, or what plots, while this process does."""
    if stage == "measure":
        team.start(workers.measure_workers(config), "analysis.tables.stage")
    else:
        team.start(workers.report_workers(config), "analysis.report.saving")


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
    """The stages of a command on a run directory that is held."""

    request: Request
    plan: RunPlan
    run: Run
    team: Team

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
        if request.includes("measure"):
            self.measure()
        if request.includes("report"):
            return self.report()
        path = self.plan.config.out_path
        if request.shard:
            return f"shard {request.shard}: done in {path}"
        return f"{request.command.stage}: done in {path}; next: {_next(request.command.stage, path)}"

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
    def cluster(self) -> Iterator[ClusterWorkers | None]:
        """Hold the cluster whose workers generate and observe images; None where this machine alone does."""
        if not self.request.clustered:
            yield None
            return
        from probes.execution.cluster import driver

        with driver.joined(self.plan.config, progress=self.progress) as cluster:
            yield cluster

    @property
    def progress(self) -> bool:
        return not self.request.command.quiet

    def generate(self, cluster: ClusterWorkers | None) -> None:
        """Draw the images of the plan, as many as its question takes, or take in those of another program."""
        request, plan = self.request, self.plan
        command = StageCall(
            request.passed,
            request.text,
            request.command.overwrite,
            self.progress,
            plan.captions,
            self.team,
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

    def observe(self, cluster: ClusterWorkers | None) -> None:
        """Observe the images."""
        from analysis.observe.stage import observe

        began = monotonic()
        skipped = observe(self.run, progress=self.progress, team=self.team, cluster=cluster)
        if skipped:
            self.request.say(f"observe: {skipped}")
            return
        before = shards.elapsed(self.run, "observed") if self.request.finishing else 0.0
        runs_directory.record_stage(self.run, "observed", before + monotonic() - began)

    def trace(self, cluster: ClusterWorkers | None) -> None:
        """Generate images with patched activations."""
        from probes.stages.trace.stage import forget, trace

        if self.request.replaces("trace"):
            forget(self.run)
        command = StageCall(progress=self.progress, team=self.team, cluster=cluster)
        assert self.plan.source is not None
        trace(self.run, self.plan.source, self.plan.samples[: self.run.meta["images"]], command)
        traced = self.run.meta["trace"]
        if traced["faults"]:
            self.request.say(f"trace: {image_faults.sentence(traced['faults'], traced['rows'])}")

    def measure(self) -> None:
        """Write the tables of the run."""
        config = self.plan.config
        _load("measure", config, self.team)
        from analysis.tables.stage import measure

        began = monotonic()
        require_whole(self.run)
        what = "comparing pairs, resampling prompts" if config.compares else "counting, resampling prompts"
        self.request.say(f"measure: {what}")
        measure(self.run, team=self.team, processes=workers.measure_workers(config))
        runs_directory.record_stage(self.run, "measured", monotonic() - began)

    def report(self) -> str:
        """Write the report of the run; gives a line on where it stands."""
        config = self.plan.config
        _load("report", config, self.team)
        from analysis.export.cards.card import write_dataset_card
        from analysis.report.page import answers, report

        began = monotonic()
        self.request.say("report: drawing figures")
        page = report(self.run, team=self.team, processes=workers.report_workers(config))
        if left := write_dataset_card(self.run):
            self.request.say(f"report: {left}")
        runs_directory.record_stage(self.run, "complete", monotonic() - began)
        for line in answers(self.run):
            self.request.announce(line)
        return f"report: {page}"
