"""The stages of a run, in their order: what ``triptych run`` and `triptych.run` do."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from probes import command_line
from probes.config.schema import Config
from probes.errors import UserError, printable
from probes.execution import workers
from probes.execution.loop import StageCall
from probes.execution.processes import Helpers, loading_libraries
from probes.locks import MEASURING, locked
from probes.runs import directory
from probes.runs.images import faults_line
from probes.runs.missing import require_matching_parts
from probes.runs.parts import write_bytes
from probes.runs.run import Run
from probes.runs.schemas import OBSERVED_KINDS
from triptych.request import Request
from triptych.run_plan import RunPlan, make_plan

if TYPE_CHECKING:
    from analysis.observe.observer import Observer

_NEXT = {"generate": "observe", "observe": "measure", "trace": "measure"}


def run(request: Request) -> tuple[Config, list[str]]:
    """Run the stages of a request; return its configuration with resolved prompts, and lines on what was done."""
    with Helpers() as helpers, request.locate_errors():
        plan, observers, skipped = _prepare(request)
        if skipped and not observers and request.stages == ("observe",):
            raise UserError(f"observe: {'; '.join(skipped)}")
        for line in skipped if observers else ():
            request.print_line(f"observe: {line}")
        command_line.raise_on_signals()
        alone = request.overwrite and request.includes("generate", "observe", "trace")
        with directory.claim(plan.config.out_path, alone=alone) as held:
            return plan.config, _run_stages(request, plan, held, helpers)


def plan_request(request: Request, *, samples: bool = False) -> tuple[RunPlan, list[str]]:
    """Return the plan of a request that is not run, and lines on what would be generated and observed."""
    with request.locate_errors():
        plan, observers, skipped = _prepare(request)
        looking = [printable(f"observe: {line}") for line in (*observers, *skipped)]
        return plan, [*plan.summary_lines(samples=samples), *looking]


def _prepare(request: Request) -> tuple[RunPlan, Sequence[Observer], Sequence[str]]:
    """Return a request's plan, the observers of its images, and lines on observers that cannot run."""
    config, place, primary = request.config, request.location_of("measure.primary"), None
    if "primary" in config.measure.model_fields_set:  # every run holds the default
        from analysis.metrics.registry import require_primary

        primary = require_primary(config.measure.primary, place, opened=config.images is None)
    if request.clustered and not request.dry:
        flag, _ = request.overrides.get(("cluster", "address"), (request.location_of("cluster"), None))
        workers.require_cluster(config, flag)
    if config.preset and request.includes("observe"):
        from analysis.observe.missing import require_preset

        require_preset(config)
    chosen: Sequence[Observer] = ()
    skipped: Sequence[str] = ()
    missing: Mapping[str, str] = {}
    with loading_libraries():
        plan = make_plan(request)
        if request.includes("observe"):
            from analysis.observe.registry import observers, why_not

            chosen, missing = observers(plan.config)
            skipped = why_not(missing)
        if primary is not None and primary.needs == "features":
            from analysis.observe.missing import require_primary_feature

            require_primary_feature(plan.config, place, missing)
    return plan, chosen, skipped


def _run_stages(request: Request, plan: RunPlan, run: Run, helpers: Helpers) -> list[str]:
    """Run the stages of a request on its run; return lines on what was done and what comes next."""
    config, begins = plan.config, request.includes("generate")
    if not (request.overwrite and begins):
        directory.require_same(
            run,
            config.resolved(),
            observe_again=request.replaces("observe"),
            trace_again=request.replaces("trace"),
        )
    connection: Any = contextlib.nullcontext()
    if request.clustered:
        from probes.execution import on_ray

        connection = on_ray.connected(config, progress=not request.quiet)
    with connection as cluster:
        call = StageCall(
            request.passed,
            request.yaml_source.text,
            request.overwrite,
            not request.quiet,
            plan.captions,
            helpers,
            cluster,
        )
        if begins:
            _generate(request, plan, run, call)
        else:
            directory.prepare_stage(run, config, request.stages[0], request.passed, request.yaml_source.text)
        if request.includes("observe"):
            _observe(request, run, call)
        if request.includes("trace"):
            _trace(request, plan, run, call)
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
            return _report(request, run)
        return [f"measure: done in {run.path}; next: triptych report {shlex.quote(str(run.path))}"]


def _generate(request: Request, plan: RunPlan, run: Run, call: StageCall) -> None:
    """Generate the images of a plan, or until its stopping question is answered, or store external images."""
    if plan.external_images:
        from probes.stages.external_images.stage import store_images

        store_images(run, plan.config, plan.external_images, call)
    else:
        if plan.config.stop is not None:
            from analysis.methods.stopping.generation import generate_until_answered as generate
        else:
            from probes.stages.generate import generate

        assert plan.source is not None
        generate(run, plan.config, plan.samples, plan.source, call)
    if request.captions:
        write_bytes(run.path / directory.CAPTIONS, request.captions.table())
    if faulty := run.meta.get("faults"):
        request.print_line(faults_line(faulty, run.meta["images"], [*run.faults()]))


def _observe(request: Request, run: Run, call: StageCall) -> None:
    """Observe the images of a run (vision models); earlier results are removed first if they are to be replaced."""
    from analysis.observe.stage import observe

    if request.replaces("observe") and not request.includes("generate"):
        directory.remove_parts(run, OBSERVED_KINDS)
    began = monotonic()
    skipped = observe(run, progress=call.progress, helpers=call.helpers, cluster=call.cluster)
    if skipped:
        request.print_line(f"observe: {skipped}")
    else:
        directory.record_stage(run, "observed", monotonic() - began)


def _trace(request: Request, plan: RunPlan, run: Run, call: StageCall) -> None:
    """Generate a run's images with patched activations; earlier ones are removed first if to be replaced."""
    from probes.stages.trace.stage import remove_trace, trace

    if request.replaces("trace"):
        remove_trace(run)
    assert plan.source is not None
    trace(run, plan.source, plan.samples[: run.meta["images"]], call)
    traced = run.meta["trace"]
    if traced["faults"]:
        request.print_line(f"trace: {faults_line(traced['faults'], traced['rows'])}")


def _measure(request: Request, config: Config, run: Run, helpers: Helpers) -> None:
    """Compute the result tables of a run; UserError if parts of it are missing."""
    with loading_libraries():
        from analysis.tables.stage import measure

    began = monotonic()
    require_matching_parts(run)
    what = "comparing pairs, resampling prompts" if config.compares else "counting, resampling prompts"
    request.print_line(f"measure: {what}")
    measure(run, helpers=helpers, processes=workers.process_count(config, "measure"))
    directory.record_stage(run, "measured", monotonic() - began)


def _report(request: Request, run: Run) -> list[str]:
    """Write the report and the dataset card of a run; return lines with its answers and the report's path."""
    with loading_libraries():
        from analysis.export.card import write_dataset_card
        from analysis.report.page import answers, report

    began = monotonic()
    request.print_line("report: drawing figures")
    page = report(run)
    if left := write_dataset_card(run):
        request.print_line(f"report: {left}")
    directory.record_stage(run, "complete", monotonic() - began)
    return [*answers(run), f"report: {page}"]
