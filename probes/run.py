"""The command line, ``python -m probes.run triplets.yaml``: calls the stages in order."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from analysis.metrics.registry import require_primary
from probes import command_line, execute, image_faults, interrupt, plan_text, rundir, workers
from probes.config import Config, Trace, build_config, load_config, schema_text
from probes.errors import UserError, printable
from probes.paths import expand
from probes.prompts import of_captions
from probes.prompts.source import Loaded, NoFileError, said
from probes.store import Run
from probes.team import Team
from probes.yaml_source import YamlSource, read_yaml

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
        help="toyworld, toyworld-mirror, -null, -work or -skills, hub id, folder, .safetensors or .ckpt",
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


def configuration(arguments: argparse.Namespace) -> tuple[Config, YamlSource, dict, Loaded | None]:
    """The configuration from a YAML file or a run directory with the command line over it, and as passed.

    And what its prompts were read from, where they do not stand in it.
    """
    path, chosen = expand(arguments.config, "command line"), options(arguments)
    line = {flag: value for flag, value in chosen.values()}
    if not path.is_dir():
        source = read_yaml(path)
        read: list[Loaded] = []
        try:
            config = load_config(path, chosen, read)
        except NoFileError as error:
            raise of_captions.gone(error, _out(path, source, chosen)) from None
        if line_on_captions := said(read):
            _say(line_on_captions, arguments)
        _require_out(config, chosen, f"{source.name}: out")
        return config, source, {"file": source.data, "command_line": line}, read[0] if read else None
    run = Run.open(path)
    record = run.meta.get("config")
    before, resolved = (
        record.get(key) if isinstance(record, dict) else None for key in ("passed", "resolved")
    )
    if not isinstance(before, dict) or not isinstance(resolved, dict):
        raise UserError(
            f"{path / 'run.json'}: expected the configuration of a run, found none: run it from triplets.yaml"
        )
    passed = {**before, "command_line": {**before.get("command_line", {}), **line}}
    # a folder whose name begins with ~ is the folder, and no one's home
    out = str(path.absolute() if str(path).startswith("~") else path)
    source = YamlSource(name=f"{path / 'run.json'}", text="", data={**resolved, "out": out})
    config = build_config(source.data, source, chosen)
    _require_out(config, chosen, f"{source.name}: out")
    return config, source, passed, None


def _out(path: Path, source: YamlSource, chosen: dict) -> Path:
    """The run directory of a configuration that cannot be read to its end."""
    _, out = chosen.get(("out",), ("", source.data.get("out")))
    return (
        expand(out, "out") if isinstance(out, str) else Path("runs") / str(source.data.get("name", path.stem))
    )


def _require_out(config: Config, chosen: dict, place: str) -> None:
    """Refuse a run directory that no file system takes, before anything is planned."""
    if config.out:
        expand(config.out, chosen[("out",)][0] if ("out",) in chosen else place)


def run(arguments: argparse.Namespace) -> None:
    """Do what the command line asks."""
    with Team() as team:
        _run(arguments, team)


def _run(arguments: argparse.Namespace, team: Team) -> None:
    config, yaml_source, passed, loaded = configuration(arguments)
    place = f"{yaml_source.name}: measure.primary"
    primary = require_primary(config.measure.primary, place, opened=config.images is None)
    config, stages = _stages(config, arguments.stage)
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
        return
    if lacking and not chosen and arguments.stage:
        raise UserError(f"observe: {'; '.join(lacking)}")
    for line in lacking if chosen else ():
        _say(f"observe: {line}", arguments)
    page = None
    interrupt.begun()
    with rundir.claim(config.out_path) as directory:
        anew = arguments.overwrite and "observe" in stages
        traced_anew = arguments.overwrite and "trace" in stages
        if not (arguments.overwrite and drawing):
            rundir.require_same(directory, config.resolved(), observing_anew=anew, tracing_anew=traced_anew)
        if stages == ("plan",):
            rundir.write_plan(
                directory, config, passed, text, images, captions=captions, overwrite=arguments.overwrite
            )
            print(printable(f"planned {images} images in {directory.path}"))
            return
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
            rundir.take_up(directory, config, stages, passed=passed, text=text)
            if anew:
                rundir.remove(directory, rundir.OBSERVED)
        if "observe" in stages:
            from analysis.observe.stage import observe

            began = monotonic()
            skipped = observe(directory, progress=not arguments.quiet, team=team)
            if skipped:
                _say(f"observe: {skipped}", arguments)
            else:
                rundir.reached(directory, "observed", monotonic() - began)
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
    print(printable(f"report: {page}" if page else f"{arguments.stage}: done in {config.out_path}"))


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
