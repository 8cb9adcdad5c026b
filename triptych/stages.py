"""The command line, ``python -m probes.run triplets.yaml``: calls the stages in order."""

from __future__ import annotations

import argparse
import contextlib
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
from probes.execution.team import Team
from probes.runs import completeness, image_faults
from probes.runs import directory as runs_directory
from probes.runs.store import Run
from probes.storage.claim import HeldError, claim
from triptych.plan import RunPlan, make_plan
from triptych.request import Request, read_request, require_shareable

if TYPE_CHECKING:
    from analysis.observe.observer import Observer
    from probes.execution.cluster.driver import ClusterWorkers


def run(arguments: argparse.Namespace) -> None:
    """Do what the command line asks."""
    shard = shards.parse_shard(arguments.shard, arguments.stage, overwrite=arguments.overwrite)
    with Team() as team:
        config = _run_once(read_request(arguments, shard), team)
        if arguments.dry_run:
            return
        if shard and arguments.stage is None and shards.is_complete(config.out_path, shard):
            with contextlib.suppress(HeldError):  # another one finishes it
                _run_once(read_request(arguments, finishing=True), team)
        while arguments.stage == "measure" and shards.became_complete(config.out_path):
            _run_once(read_request(arguments), team)


def _run_once(asked: Request, team: Team) -> Config:
    """Plan what a command asks for and go through its stages; gives the configuration as it was planned."""
    with asked.naming():
        return _planned_and_done(asked, team)


def _planned_and_done(asked: Request, team: Team) -> Config:
    primary = _primary(asked)
    _require_possible(asked)
    _start_helpers(asked, team)
    plan = make_plan(asked)
    observers, skipped = _observers(asked, plan.config, primary)
    if asked.dry:
        looking = [printable(f"observe: {line}") for line in (*observers, *skipped)]
        print("\n".join([*plan.described(), *looking]))
        return plan.config
    _say_skipped(asked, observers, skipped)
    signals.raise_from_here()
    with claim(plan.config.out_path, asked.hold) as directory:
        directory = SharedRun(directory, asked.shard) if asked.shard else directory
        done = _Work(asked, plan, directory, team).through()
    print(printable(done))
    if asked.stages != ("plan",) and (over := completeness.summary(directory.meta)):
        print(printable(f"the run is not finished: {asked.stages[-1]} over {over}"))
    return plan.config


def _primary(asked: Request) -> Metric:
    """The measure that the configuration leads with."""
    config = asked.config
    return require_primary(
        config.measure.primary, asked.place("measure.primary"), opened=config.images is None
    )


def _require_possible(asked: Request) -> None:
    """Refuse what this installation or a shard cannot do, before the libraries of a model are loaded."""
    require_shareable(asked)
    if asked.clustered and not asked.dry:
        from probes.execution.cluster import driver

        driver.require(asked.config, "--cluster" if asked.arguments.cluster else asked.place("cluster"))
    if asked.config.preset and asked.includes("observe"):
        from analysis.observe.missing import require_preset

        require_preset(asked.config)


def _start_helpers(asked: Request, team: Team) -> None:
    """Let helpers load what the first stage takes, while this process plans."""
    if asked.dry:
        return
    here = asked.includes("generate") and not asked.clustered
    if here and not (asked.config.out_path / "run.json").exists():
        team.start(workers.expected_workers(asked.config))
    if asked.stages in (("measure",), ("report",)):
        _load(asked.stages[0], asked.config, team)


def _load(stage: str, config: Config, team: Team) -> None:
    """Let helpers load what measures, or what draws figures, while this process does."""
    if stage == "measure":
        team.start(workers.measure_workers(config), "analysis.tables.stage")
    else:
        team.start(workers.report_workers(config), "analysis.report.saving")


def _observers(asked: Request, config: Config, primary: Metric) -> tuple[Sequence[Observer], Sequence[str]]:
    """Who is going to look at the images, and lines on who cannot: known before any image is drawn."""
    chosen: Sequence[Observer] = ()
    skipped: Sequence[str] = ()
    missing: Mapping[str, str] = {}
    if asked.includes("observe"):
        from analysis.observe.registry import observers, why_not

        chosen, missing = observers(config)
        skipped = why_not(missing)
    if primary.needs == "features":
        from analysis.observe.missing import require_primary_feature

        require_primary_feature(config, asked.place("measure.primary"), missing)
    return chosen, skipped


def _say_skipped(asked: Request, observers: Sequence[Observer], skipped: Sequence[str]) -> None:
    """Say who does not look; refuse the stage observe alone where nobody does."""
    if skipped and not observers and asked.arguments.stage:
        raise UserError(f"observe: {'; '.join(skipped)}")
    for line in skipped if observers else ():
        asked.say(f"observe: {line}")


@dataclass(frozen=True)
class _Work:
    """The stages of a command on a run directory that is held."""

    asked: Request
    plan: RunPlan
    run: Run
    team: Team

    def through(self) -> str:
        """Go through the stages in their order; gives a line on what was done."""
        asked = self.asked
        self.require_same()
        if asked.stages == ("plan",):
            return self.write_plan()
        with self.cluster() as cluster:
            if asked.includes("generate"):
                self.generate(cluster)
            else:
                self.take_up()
            if asked.includes("observe"):
                self.observe(cluster)
            if asked.includes("trace"):
                self.trace(cluster)
        if asked.includes("measure"):
            self.measure()
        if asked.includes("report"):
            return self.report()
        what = f"shard {asked.shard}" if asked.shard else asked.arguments.stage
        return f"{what}: done in {self.plan.config.out_path}"

    def require_same(self) -> None:
        """Refuse a directory that holds another run, unless that is to be replaced."""
        asked = self.asked
        if not (asked.arguments.overwrite and asked.drawing):
            runs_directory.require_same(
                self.run,
                self.plan.config.resolved(),
                observing_anew=asked.anew("observe"),
                tracing_anew=asked.anew("trace"),
            )

    def write_plan(self) -> str:
        """Record what is to be drawn."""
        asked, plan = self.asked, self.plan
        overwrite = asked.arguments.overwrite
        runs_directory.write_plan(
            self.run,
            plan.config,
            asked.passed,
            asked.text,
            plan.images,
            captions=plan.captions,
            overwrite=overwrite,
        )
        return f"planned {plan.images} images in {self.run.path}"

    @contextlib.contextmanager
    def cluster(self) -> Iterator[ClusterWorkers | None]:
        """Hold the cluster whose workers draw and look at images; None where this machine alone does."""
        if not self.asked.clustered:
            yield None
            return
        from probes.execution.cluster import driver

        with driver.joined(self.plan.config, progress=self.progress) as cluster:
            yield cluster

    @property
    def progress(self) -> bool:
        return not self.asked.arguments.quiet

    def generate(self, cluster: ClusterWorkers | None) -> None:
        """Draw the images of the plan, or take in those of another program."""
        asked, plan = self.asked, self.plan
        command = StageCall(
            asked.passed,
            asked.text,
            asked.arguments.overwrite,
            self.progress,
            plan.captions,
            self.team,
            cluster,
        )
        if plan.taken:
            from probes.stages.external_images.stage import take_in

            take_in(self.run, plan.config, plan.taken, command)
        else:
            from probes.stages.generate import generate

            assert plan.source is not None
            generate(self.run, plan.config, plan.samples, plan.source, command)
        if faulty := self.run.meta.get("faults"):
            asked.say(image_faults.sentence(faulty, self.run.meta["images"], [*self.run.faults()]))

    def take_up(self) -> None:
        """Go on with a run that was drawn before."""
        asked = self.asked
        runs_directory.take_up(
            self.run,
            self.plan.config,
            asked.stages,
            passed=asked.passed,
            text=asked.text,
            share=asked.shard is not None,
        )
        if asked.anew("observe"):
            runs_directory.remove(self.run, runs_directory.OBSERVED)

    def observe(self, cluster: ClusterWorkers | None) -> None:
        """Look at the images."""
        from analysis.observe.stage import observe

        began = monotonic()
        skipped = observe(self.run, progress=self.progress, team=self.team, cluster=cluster)
        if skipped:
            self.asked.say(f"observe: {skipped}")
            return
        before = shards.elapsed(self.run, "observed") if self.asked.finishing else 0.0
        runs_directory.record_stage(self.run, "observed", before + monotonic() - began)

    def trace(self, cluster: ClusterWorkers | None) -> None:
        """Draw images with activations exchanged."""
        from probes.stages.trace.stage import forget, trace

        if self.asked.anew("trace"):
            forget(self.run)
        command = StageCall(progress=self.progress, team=self.team, cluster=cluster)
        assert self.plan.source is not None
        trace(self.run, self.plan.source, self.plan.samples, command)
        traced = self.run.meta["trace"]
        if traced["faults"]:
            self.asked.say(f"trace: {image_faults.sentence(traced['faults'], traced['rows'])}")

    def measure(self) -> None:
        """Write the tables of the run."""
        config = self.plan.config
        _load("measure", config, self.team)
        from analysis.tables.stage import measure

        began = monotonic()
        runs_directory.fix_parts(self.run)
        self.asked.say("measure: comparing pairs, resampling prompts")
        measure(self.run, team=self.team, processes=workers.measure_workers(config))
        runs_directory.record_stage(self.run, "measured", monotonic() - began)

    def report(self) -> str:
        """Write the report of the run; gives a line on where it stands."""
        config = self.plan.config
        _load("report", config, self.team)
        from analysis.report.page import report

        began = monotonic()
        self.asked.say("report: drawing figures")
        page = report(self.run, team=self.team, processes=workers.report_workers(config))
        runs_directory.record_stage(self.run, "complete", monotonic() - began)
        return f"report: {page}"
