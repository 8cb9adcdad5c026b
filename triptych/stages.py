"""The stages of a run, in their order: what ``triptych run`` and `triptych.run` do."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from analysis.metrics.registry import require_primary
from probes.config.schema import Config
from probes.errors import UserError, printable
from probes.execution import signals, workers
from probes.execution.claim import claim
from probes.execution.loop import StageCall
from probes.execution.processes import Helpers, loading_libraries
from probes.locks import MEASURING, locked
from probes.runs import directory
from probes.runs.images import faults_line
from probes.runs.missing import require_matching_parts
from probes.runs.run import Run
from probes.runs.schemas import OBSERVED_KINDS
from triptych.request import Request
from triptych.run_plan import RunPlan, make_plan

if TYPE_CHECKING:
    from analysis.observe.observer import Observer

_NEXT = {"generate": "observe", "observe": "measure", "trace": "measure"}
_LIBRARIES = {"measure": "analysis.tables.stage", "report": "analysis.report.saving"}


def run(request: Request) -> tuple[Config, list[str]]:
    """Go through the stages of a request; return the configuration as it was planned, and lines on what was done."""
    with Helpers() as helpers, request.naming():
        plan, observers, skipped = _planned(request, helpers)
        if skipped and not observers and request.stages == ("observe",):
            raise UserError(f"observe: {'; '.join(skipped)}")
        for line in skipped if observers else ():
            request.say(f"observe: {line}")
        signals.raise_from_here()
        alone = request.overwrite and request.includes("generate", "observe", "trace")
        with claim(plan.config.out_path, alone=alone) as held:
            return plan.config, _go_through(request, plan, held, helpers)


def planned(request: Request, *, samples: bool = False) -> tuple[RunPlan, list[str]]:
    """Return the plan of a dry request, and its lines: what is to be generated and observed, and what it will take."""
    with request.naming():
        plan, observers, skipped = _planned(request, Helpers())
        looking = [printable(f"observe: {line}") for line in (*observers, *skipped)]
        return plan, [*plan.described(samples=samples), *looking]


def _planned(request: Request, helpers: Helpers) -> tuple[RunPlan, Sequence[Observer], Sequence[str]]:
    """The plan of a request, who observes its images, and lines on those who cannot; refused what is impossible here.

    Helpers load meanwhile what the first stage takes.
    """
    config, place = request.config, request.place("measure.primary")
    primary = require_primary(config.measure.primary, place, opened=config.images is None)
    if request.clustered and not request.dry:
        flag, _ = request.chosen.get(("cluster", "address"), (request.place("cluster"), None))
        workers.require_cluster(config, flag)
    if config.preset and request.includes("observe"):
        from analysis.observe.missing import require_preset

        require_preset(config)
    if not request.dry:
        here = request.includes("generate") and not request.clustered
        if here and not (config.out_path / "run.json").exists():
            helpers.start(workers.expected_workers(config, "generate"))
        if request.stages in (("measure",), ("report",)):
            _load(request.stages[0], config, helpers)
    chosen: Sequence[Observer] = ()
    skipped: Sequence[str] = ()
    missing: Mapping[str, str] = {}
    with loading_libraries():
        plan = make_plan(request)
        if request.includes("observe"):
            from analysis.observe.registry import observers, why_not

            chosen, missing = observers(plan.config)
            skipped = why_not(missing)
        if primary.needs == "features":
            from analysis.observe.missing import require_primary_feature

            require_primary_feature(plan.config, place, missing)
    return plan, chosen, skipped


def _load(stage: str, config: Config, helpers: Helpers) -> dict[str, Any]:
    """Let helpers load what measures, or what plots, while this process does; return who they are."""
    count = workers.expected_workers(config, stage)
    helpers.start(count, _LIBRARIES[stage])
    return {"helpers": helpers, "processes": count}


def _go_through(request: Request, plan: RunPlan, run: Run, helpers: Helpers) -> list[str]:
    """Go through the stages on a run directory, which others may work on, too; gives lines on what was done."""
    config, begins = plan.config, request.includes("generate")
    if not (request.overwrite and begins):
        directory.require_same(
            run,
            config.resolved(),
            observing_anew=request.replaces("observe"),
            tracing_anew=request.replaces("trace"),
        )
    connection: Any = contextlib.nullcontext()
    if request.clustered:
        from probes.execution import on_ray

        connection = on_ray.connected(config, progress=not request.quiet)
    with connection as cluster:
        command = StageCall(
            request.passed,
            request.text,
            request.overwrite,
            not request.quiet,
            plan.captions,
            helpers,
            cluster,
        )
        if begins:
            _generate(request, plan, run, command)
        else:
            directory.resume(run, config, request.stages[0], request.passed, request.text)
        if request.includes("observe"):
            _observe(request, run, command)
        if request.includes("trace"):
            _trace(request, plan, run, command)
    if not request.includes("measure", "report"):
        (stage,) = request.stages
        line = f"triptych run {shlex.quote(str(run.path))} --stage {_NEXT[stage]}"
        return [f"{stage}: done in {run.path}; next: {line}"]
    with locked(run.path / MEASURING, wait=False, remove=True) as free:
        other = "" if free else "measures and reports"
        if free and begins:  # no part is missing
            run.reload_record()
            other = "has measured and reported" if run.status == "complete" else ""
        if other and not begins:
            raise UserError(
                f"{run.path}: expected to be the only one measuring here, found another process that {other}: let it"
                " end first"
            )
        if other:
            return [f"{run.path}: every part is there, and another process {other}"]
        if request.includes("measure"):
            _measure(request, config, run, helpers)
        if request.includes("report"):
            return _report(request, config, run, helpers)
        return [f"measure: done in {run.path}; next: triptych report {shlex.quote(str(run.path))}"]


def _generate(request: Request, plan: RunPlan, run: Run, command: StageCall) -> None:
    """Draw the images of the plan, as many as its question takes, or take in those of another program."""
    if plan.taken:
        from probes.stages.external_images.stage import store_images

        store_images(run, plan.config, plan.taken, command)
    else:
        if plan.config.stop is not None:
            from analysis.methods.stopping.generation import generate_until_answered as generate
        else:
            from probes.stages.generate import generate

        assert plan.source is not None
        generate(run, plan.config, plan.samples, plan.source, command)
    if faulty := run.meta.get("faults"):
        request.say(faults_line(faulty, run.meta["images"], [*run.faults()]))


def _observe(request: Request, run: Run, command: StageCall) -> None:
    from analysis.observe.stage import observe

    if request.replaces("observe") and not request.includes("generate"):
        directory.remove_parts(run, OBSERVED_KINDS)
    began = monotonic()
    skipped = observe(run, progress=command.progress, helpers=command.helpers, cluster=command.cluster)
    if skipped:
        request.say(f"observe: {skipped}")
    else:
        directory.record_stage(run, "observed", monotonic() - began)


def _trace(request: Request, plan: RunPlan, run: Run, command: StageCall) -> None:
    from probes.stages.trace.stage import remove_trace, trace

    if request.replaces("trace"):
        remove_trace(run)
    assert plan.source is not None
    trace(run, plan.source, plan.samples[: run.meta["images"]], command)
    traced = run.meta["trace"]
    if traced["faults"]:
        request.say(f"trace: {faults_line(traced['faults'], traced['rows'])}")


def _measure(request: Request, config: Config, run: Run, helpers: Helpers) -> None:
    processes = _load("measure", config, helpers)
    from analysis.tables.stage import measure

    began = monotonic()
    require_matching_parts(run)
    what = "comparing pairs, resampling prompts" if config.compares else "counting, resampling prompts"
    request.say(f"measure: {what}")
    measure(run, **processes)
    directory.record_stage(run, "measured", monotonic() - began)


def _report(request: Request, config: Config, run: Run, helpers: Helpers) -> list[str]:
    """Write the report of a run; gives its answers, and a line on where it stands."""
    processes = _load("report", config, helpers)
    from analysis.export.cards.card import write_dataset_card
    from analysis.report.page import answers, report

    began = monotonic()
    request.say("report: drawing figures")
    page = report(run, **processes)
    if left := write_dataset_card(run):
        request.say(f"report: {left}")
    directory.record_stage(run, "complete", monotonic() - began)
    return [*answers(run), f"report: {page}"]
