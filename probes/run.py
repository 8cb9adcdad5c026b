"""The command line, ``python -m probes.run triplets.yaml``: calls the stages in order."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING

from analysis.metrics.registry import require_primary
from probes import (
    command_line,
    execute,
    image_faults,
    interrupt,
    plan_text,
    rundir,
    shards,
    unfinished,
    workers,
)
from probes.claim import HeldError, Hold, claim
from probes.config import Config, Trace, schema_text
from probes.errors import UserError, printable
from probes.prompts import of_captions
from probes.run_configuration import configuration
from probes.shards import Shard, SharedRun
from probes.team import Team

if TYPE_CHECKING:
    from analysis.observe.observer import Observer
    from probes.models import Source
    from probes.prompts.plan import Sample

STAGES = ("plan", "generate", "observe", "trace", "measure", "report")
EXAMPLES = """examples:
  python -m probes.run triplets.yaml
      the bundled model, all stages; running it again goes on where it stopped
  python -m probes.run runs/first-light --stage trace
      which site makes the difference: images with activations exchanged, of a run that is drawn
  python -m probes.run triplets.yaml --model toyworld-null --seeds 0 1 2 --steps 20 --out runs/null
      another model, three seeds, twenty steps, in a folder of its own
"""


def parser() -> argparse.ArgumentParser:
    """The command line's options; each says which field of ``triplets.yaml`` it stands over."""
    main = command_line.Parser(
        prog="python -m probes.run",
        description="Draw triplets of images and say where inside the model they part.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    main.add_argument("config", help="triplets.yaml, or the folder of a run to take a stage up again")

    what = main.add_argument_group("what to draw")
    what.add_argument(
        "--model",
        help="toyworld, toyworld-mirror, toyworld-null, toyworld-work, hub id, folder, .safetensors or .ckpt",
    )
    what.add_argument("--seeds", nargs="+", metavar="N", help="seeds, e.g. --seeds 0 1 2")
    what.add_argument("--limit", metavar="N", help="only the first N prompts")

    how = main.add_argument_group("how to draw")
    how.add_argument("--steps", metavar="N", help="denoising steps")
    how.add_argument(
        "--guidance-scale", metavar="X", help="classifier-free guidance (default: the model's own)"
    )
    how.add_argument("--scheduler", metavar="NAME", help="ddim, euler, dpm, ... (default: the model's own)")
    how.add_argument("--negative-prompt", metavar="TEXT", help="what the images should not show")
    how.add_argument("--height", metavar="PX", help="of the images (default: the model's own)")
    how.add_argument("--width", metavar="PX", help="of the images (default: the model's own)")

    where = main.add_argument_group("where and with what")
    where.add_argument("--out", metavar="FOLDER", help="run directory (default: runs/NAME)")
    where.add_argument("--device", help="auto, cpu, cuda, cuda:1, mps")
    where.add_argument("--dtype", help="auto, float32, float16, bfloat16")
    where.add_argument("--batch-triplets", metavar="N", help="triplets a batch holds, or auto")
    where.add_argument(
        "--workers", metavar="N", help="processes that draw, look at images and measure, or auto"
    )

    which = main.add_argument_group("which work")
    which.add_argument(
        "--stage", choices=STAGES, help="only this stage (default: all, in this order; trace where asked for)"
    )
    which.add_argument(
        "--shard",
        metavar="I/N",
        help="only share I, from 0 to N - 1, of N: for jobs of an array on one run directory",
    )
    which.add_argument("--dry-run", action="store_true", help="print the plan and an estimate, write nothing")
    which.add_argument("--overwrite", action="store_true", help="replace the run that is in the folder")
    which.add_argument("--quiet", action="store_true", help="no progress bars")
    which.add_argument("--schema", action=_Schema, help="print the JSON schema of triplets.yaml and exit")
    return main


class _Schema(argparse.Action):
    """Print the schema and end, as --help does: no triplets.yaml is needed."""

    def __init__(self, **options):
        super().__init__(**options, nargs=0)

    def __call__(self, parser, namespace, values, option_string=None):
        print(schema_text(), end="")
        parser.exit()


_OPTIONS = {
    "model": (("model",), str),
    "seeds": (("seeds",), int),
    "limit": (("limit",), int),
    "steps": (("sampler", "steps"), int),
    "guidance_scale": (("sampler", "guidance_scale"), float),
    "scheduler": (("sampler", "scheduler"), str),
    "negative_prompt": (("sampler", "negative_prompt"), str),
    "height": (("sampler", "height"), int),
    "width": (("sampler", "width"), int),
    "out": (("out",), str),
    "device": (("generate", "device"), str),
    "dtype": (("generate", "dtype"), str),
    "batch_triplets": (("generate", "batch_triplets"), int),
    "workers": (("generate", "workers"), int),
}


def options(arguments: argparse.Namespace) -> dict:
    """What the command line gave, by the place it has in ``triplets.yaml``."""
    chosen = {}
    for name, (place, kind) in _OPTIONS.items():
        value = getattr(arguments, name)
        if value is not None:
            flag = f"--{name.replace('_', '-')}"
            chosen[place] = (
                flag,
                [_as(v, kind) for v in value] if isinstance(value, list) else _as(value, kind),
            )
    return chosen


def _as(text: str, kind: type) -> object:
    """A number where one is meant; what is none is left to the schema, whose errors say what was expected."""
    try:
        return kind(text)
    except ValueError:
        return text


def run(arguments: argparse.Namespace) -> None:
    """Do what the command line asks."""
    shard = shards.asked(arguments.shard, arguments.stage, overwrite=arguments.overwrite)
    with Team() as team:
        config = _run(arguments, team, shard)
        if arguments.dry_run:
            return
        if shard and arguments.stage is None and shards.all_there(config.out_path, shard):
            with contextlib.suppress(HeldError):  # another one finishes it
                _run(arguments, team, finishing=True)
        while arguments.stage == "measure" and shards.finished_meanwhile(config.out_path):
            _run(arguments, team)


def _run(
    arguments: argparse.Namespace, team: Team, shard: Shard | None = None, *, finishing: bool = False
) -> Config:
    config, yaml_source, passed, loaded = configuration(
        arguments.config, options(arguments), lambda line: _say(line, arguments)
    )
    place = f"{yaml_source.name}: measure.primary"
    primary = require_primary(config.measure.primary, place, opened=config.images is None)
    config, stages = _stages(config, arguments.stage)
    stages = shards.stages(stages, shard, finishing=finishing)
    hold = Hold.SHARD if shard else Hold.RESULTS if {*stages} <= {"measure", "report"} else Hold.ALONE
    if config.preset and "observe" in stages:
        from analysis.observe.missing import require_preset

        require_preset(config)
    if "generate" in stages and not arguments.dry_run and not (config.out_path / "run.json").exists():
        team.start(workers.expected(config))
    if stages in (("measure",), ("report",)) and not arguments.dry_run:
        _load(team, config, *stages)
    text = yaml_source.text or None
    samples = source = taken = captions = images = None
    drawing = {"plan", "generate"} & set(stages)
    with_model = {*drawing, "trace"} & set(stages)
    if "trace" in stages:
        from probes.trace import feasible as tracing

        tracing.require_drawn_here(config)
    if shard and config.images is not None:
        raise UserError("--shard: expected images to draw, got those of another program: leave --shard out")
    if (arguments.dry_run or drawing) and config.images is not None:
        from probes.foreign import stage as foreign

        taken = foreign.plan(config, yaml_source.name)
        images = taken.images
        if not arguments.dry_run:
            _say(taken.line, arguments)
    elif arguments.dry_run or with_model:
        from probes import feasible, guidance, model_files, models
        from probes.prompts import plan as prompts

        source = models.resolve(
            config.model,
            weights=bool({"generate", "trace"} & set(stages)) and not arguments.dry_run,
            revision=config.revision or (None if arguments.overwrite else rundir.pinned(config)),
            variant=config.variant,
        )
        if not arguments.overwrite and not arguments.dry_run:
            rundir.require_model(config.out_path, model_files.files(source))
        flag = arguments.negative_prompt is not None
        guidance.check_negative_prompt(
            config, source, "--negative-prompt" if flag else f"{yaml_source.name}: sampler.negative_prompt"
        )
        tokenizers, limit = models.tokenizers(source)
        config, captions = of_captions.fitted(config, loaded, tokenizers, limit, yaml_source.name)
        if too_long := of_captions.said(captions):
            _say(too_long, arguments)
        asked = (config, tokenizers, limit, yaml_source.name)
        if arguments.dry_run or {"generate", "trace"} & set(stages):
            samples = prompts.plan(*asked)
        else:
            images = prompts.count(*asked)
        feasible.check(config, source)  # what cannot be drawn is said before anything is written
        if "trace" in stages:
            tracing.check(config, source, samples, tokenizers)
        if drawing and not arguments.dry_run and (few := plan_text.few_prompts(config)):
            _say(few, arguments)
    else:
        config = of_captions.as_planned(config, loaded)
    if not arguments.overwrite:
        of_captions.require_unchanged(config, loaded)
    chosen: Sequence[Observer] = ()
    lacking: Sequence[str] = ()
    missing: dict[str, str] = {}
    if "observe" in stages:
        from analysis.observe.registry import observers, why_not

        chosen, missing = observers(config)  # what is not there is said before the images are drawn
        lacking = why_not(missing)
    if primary.needs == "features":
        from analysis.observe.missing import require_primary_feature

        require_primary_feature(config, place, missing)
    if arguments.dry_run:
        lines = [str(taken), *plan_text.comparison(config)] if taken else _estimated(config, samples, source)
        print("\n".join([*lines, *(printable(f"observe: {line}") for line in (*chosen, *lacking))]))
        return config
    if lacking and not chosen and arguments.stage:
        raise UserError(f"observe: {'; '.join(lacking)}")
    for line in lacking if chosen else ():
        _say(f"observe: {line}", arguments)
    page = None
    interrupt.begun()
    with claim(config.out_path, Hold.RESULTS if finishing else hold) as directory:
        directory = SharedRun(directory, shard) if shard else directory
        anew = arguments.overwrite and "observe" in stages
        traced_anew = arguments.overwrite and "trace" in stages
        if not (arguments.overwrite and drawing):
            rundir.require_same(directory, config.resolved(), observing_anew=anew, tracing_anew=traced_anew)
        if stages == ("plan",):
            rundir.write_plan(
                directory, config, passed, text, images, captions=captions, overwrite=arguments.overwrite
            )
            print(printable(f"planned {images} images in {directory.path}"))
            return config
        if "generate" in stages:
            command = execute.Command(passed, text, arguments.overwrite, not arguments.quiet, captions, team)
            if taken:
                foreign.take_in(directory, config, taken, command)
            else:
                from probes.generate import generate

                generate(directory, config, samples, source, command)
            if faulty := directory.meta.get("faults"):
                _say(image_faults.sentence(faulty, directory.meta["images"]), arguments)
        else:
            rundir.take_up(directory, config, stages, passed=passed, text=text, share=shard is not None)
            if anew:
                rundir.remove(directory, rundir.OBSERVED)
        if "observe" in stages:
            from analysis.observe.stage import observe

            began = monotonic()
            skipped = observe(directory, progress=not arguments.quiet, team=team)
            if skipped:
                _say(f"observe: {skipped}", arguments)
            else:
                before = shards.spent(directory, "observed") if finishing else 0.0
                rundir.reached(directory, "observed", before + monotonic() - began)
        if "trace" in stages:
            from probes.trace.stage import forget, trace

            if traced_anew:
                forget(directory)
            trace(directory, source, samples, execute.Command(progress=not arguments.quiet, team=team))
            if faulty := directory.meta["trace"]["faults"]:
                _say(f"trace: {image_faults.sentence(faulty, directory.meta['trace']['rows'])}", arguments)
        if "measure" in stages:
            _load(team, config, "measure")
            from analysis.tables.stage import measure

            began = monotonic()
            _say("measure: comparing pairs, resampling prompts", arguments)
            measure(directory, team=team, processes=workers.measuring(config))
            rundir.reached(directory, "measured", monotonic() - began)
        if "report" in stages:
            _load(team, config, "report")
            from analysis.report.page import report

            began = monotonic()
            _say("report: drawing figures", arguments)
            page = report(directory, team=team, processes=workers.reporting(config))
            rundir.reached(directory, "complete", monotonic() - began)
    what = f"shard {shard}" if shard else arguments.stage
    print(printable(f"report: {page}" if page else f"{what}: done in {config.out_path}"))
    if over := unfinished.said(directory.meta):
        print(printable(f"the run is not finished: {stages[-1]} over {over}"))
    return config


def _stages(config: Config, asked: str | None) -> tuple[Config, tuple[str, ...]]:
    """The stages to go through, and the configuration with what a trace does where it is asked for by name alone."""
    if asked is None:
        return config, tuple(stage for stage in STAGES if stage != "trace" or config.trace is not None)
    if asked == "trace" and config.trace is None:
        config = config.model_copy(update={"trace": Trace()})
    return config, (asked,)


def _load(team: Team, config: Config, stage: str) -> None:
    """Let helpers load what a stage takes, while this process does."""
    if stage == "measure":
        team.start(workers.measuring(config), "analysis.tables.stage")
    else:
        team.start(workers.reporting(config), "analysis.report.saving")


def _estimated(config: Config, samples: list[Sample], source: Source) -> list[str]:
    """The plan of what is to be drawn, and what it will take."""
    from probes import estimate

    lines = [plan_text.describe(config, samples), str(estimate.estimate(config, samples, source))]
    if config.trace is not None:
        from probes.trace.estimate import described

        lines.append(described(config, source))
    return lines


def _say(text: str, arguments: argparse.Namespace) -> None:
    if not arguments.quiet:
        print(printable(text), file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, 2 for what the user can mend, 130 when interrupted or 143 when terminated."""
    kept = "run the same command again to go on, finished parts are kept"
    return command_line.run(run, parser(), argv, interrupted=kept, begins=False)


if __name__ == "__main__":
    sys.exit(main())
