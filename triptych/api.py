"""The functions of ``import triptych``: a run, a plan, a comparison, a pipeline."""

from __future__ import annotations

import argparse
import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import UnionType
from typing import TYPE_CHECKING, Any, get_args, get_origin

from pydantic import BaseModel

from analysis.loaded_run import LoadedRun, load_run
from analysis.report.figures.dots import draw_dots
from analysis.report.figures.style import Drawn
from analysis.report.result import Result
from probes.config.schema import STAGES, Config
from probes.errors import UserError, nearest, printable
from triptych import stages
from triptych.request import Overrides, read_request, to_plain_data

if TYPE_CHECKING:
    import pandas as pd

    from analysis.studies.compare.summary import RunComparison
    from triptych.verification.record import Verification

Configuration = str | os.PathLike[str] | Mapping[str, Any] | Config | LoadedRun


def run(
    config: Configuration,
    *,
    stage: str | None = None,
    overwrite: bool = False,
    progress: bool = True,
    **changes: Any,
) -> LoadedRun:
    """Generate, observe, measure and report in this process, resuming a run that was begun; return the run.

    Called again it goes on where it stopped, as the command ``triptych`` does.

    Parameters
    ----------
    config : path, mapping, Config or LoadedRun
        ``triplets.yaml``; the folder of a run, to take it up again; or the configuration itself, as plain data or as
        a `triptych.Config`. Paths within a mapping begin in the current folder.
    stage : str, optional
        Only this stage: ``generate``, ``observe``, ``trace``, ``measure`` or ``report``.
    overwrite : bool
        Replace what the folder holds of another run.
    progress : bool
        Show progress bars and remarks on stderr, and print where the report is.
    **changes
        Fields of the configuration, put over it: ``seeds=[0, 1]``, ``out="runs/second"``. The fields of a section are
        a mapping, and what it does not name stays: ``sampler={"steps": 4}``.

    Raises
    ------
    UserError
        The configuration is wrong, something cannot be generated, or the folder holds another run.

    Examples
    --------
    >>> run = triptych.run("triplets.yaml", sampler={"steps": 4}, out="runs/quick")  # doctest: +SKIP
    >>> run = triptych.run({"prompts": ["a {person} with a dog"], "seeds": [0, 1]})  # doctest: +SKIP
    """
    if stage is not None and stage not in STAGES:
        raise UserError(f"stage: {nearest('stage', stage, STAGES)}")
    quiet = not progress
    request = read_request(
        config_or_path(config), flatten_changes(changes), stage, overwrite=overwrite, quiet=quiet
    )
    planned, lines = stages.run(request)
    if progress:
        print(*map(printable, lines), sep="\n")
    return load_run(planned.out_path)


@dataclass(frozen=True, repr=False)
class Plan(Result):
    """What a configuration would generate, and the storage that it would take; nothing is written.

    Attributes
    ----------
    text : str
        The plan as the command ``triptych plan CONFIG`` prints it: prompts, contrasts, images, storage.
    table : DataFrame
        One row per image: ``sample_id``, ``triplet``, ``prompt``, ``indicator``, ``word``, ``seed``, ``tokens`` ...
        Without rows where the images are another program's.
    config : Config
        With every default, and the prompts that the model can read.
    images : int
        Their number.
    """

    config: Config
    images: int


def plan(config: Configuration, **changes: Any) -> Plan:
    """Return what a configuration would generate, and the storage that it would take; nothing is written.

    Parameters
    ----------
    config, **changes
        As of `triptych.run`.

    Raises
    ------
    UserError
        The configuration is wrong, or something cannot be generated.

    Examples
    --------
    >>> plan({"prompts": ["a {person} with a dog"], "seeds": [0, 1]}).images
    6
    """
    import pandas as pd

    request = read_request(config_or_path(config), flatten_changes(changes), dry=True, quiet=True)
    run_plan, lines = stages.plan_request(request)
    table = pd.DataFrame([sample.row() for sample in run_plan.samples])
    images = run_plan.external_images.images if run_plan.external_images else len(table)

    def draw() -> Drawn:
        """The images of each word."""
        words = table.get(["indicator", "word"], pd.DataFrame(columns=["indicator", "word"]))
        rows = words.value_counts(sort=False).rename("value").reset_index()
        rows = rows.assign(label=rows["word"], series=rows["indicator"])
        return draw_dots("plan", "Planned images of each word", "", rows, "images", noun="word")

    return Plan("\n".join(lines), table, draw, run_plan.config, images)


def compare(
    first: LoadedRun | str | os.PathLike[str],
    second: LoadedRun | str | os.PathLike[str],
    *more: LoadedRun | str | os.PathLike[str],
    **options: Any,
) -> RunComparison:
    """Return the comparison of each two of two or more measured runs, paired by the prompts that they share.

    Parameters
    ----------
    first, second, *more : LoadedRun or path
    **options
        ``level`` and ``resamples`` of the intervals, ``permutations`` of the tests, ``seed``: as of
        `analysis.studies.compare.differences.compare`.

    Raises
    ------
    UserError
        A run is not measured, is given twice, or has no prompt in common with the others.

    Examples
    --------
    >>> triptych.compare("runs/first-light", "runs/null")  # doctest: +SKIP
    """
    from analysis.studies.compare.summary import compared

    runs = [one if isinstance(one, LoadedRun) else load_run(os.fspath(one)) for one in (first, second, *more)]
    return compared([each.run for each in runs], **options)


def trace(
    run: LoadedRun | str | os.PathLike[str],
    *,
    overwrite: bool = False,
    progress: bool = True,
    **changes: Any,
) -> Result:
    """Patch activations of a run that has its images, measure it anew, and return which site makes the difference.

    By default each cross-attention is patched.

    Parameters
    ----------
    run : LoadedRun or path
    overwrite : bool
        Replace what was traced before.
    progress, **changes
        As of `triptych.run`; what is patched is ``trace={"sites": ["unet.*.cross"], "prompts": 6}``.

    Returns
    -------
    Result
        ``table`` is ``tables/trace_shares``: the share of the words' effect that comes with each patched place.

    Raises
    ------
    UserError
        The run has no images yet, or of another program, or a place cannot be patched.

    Examples
    --------
    >>> triptych.trace("runs/first-light").plot()  # doctest: +SKIP
    """
    from analysis.report import section

    path = os.fspath(run.path if isinstance(run, LoadedRun) else run)
    for stage in ("trace", "measure"):
        again = overwrite and stage == "trace"
        stages.run(read_request(path, flatten_changes(changes), stage, overwrite=again, quiet=not progress))
    measured = load_run(path)
    leads = [one.lead for one in section.sections(measured.run) if one.method.anchor == "trace"]
    text = "\n".join(f"{lead.question} {lead.answer}" for lead in leads)
    return Result(text, measured.table("trace_shares"), lambda: measured.plot("trace-shares"))


def power(run: LoadedRun | str | os.PathLike[str] | None = None, **options: Any) -> Result:
    """Return how many prompts, seeds and words it takes to find a difference, for every combination of values.

    Parameters
    ----------
    run : LoadedRun or path, optional
        A measured run, whose spreads, numbers and gaps are taken for what is not given.
    **options
        Those of ``triptych power`` by name, such as ``gap``, ``sd_prompt`` and ``seeds``; several values as a list.

    Returns
    -------
    Result
        ``table`` has a row for each combination: ``quantity`` (a gap, a gap against words, presence), ``prompts``,
        ``images``, ``power`` and what was given.

    Raises
    ------
    UserError
        There is no such option, a value is out of range, or the run tells no gap.

    Examples
    --------
    >>> found = power(gap=0.5, seeds=[1, 4], simulations=50).table
    >>> found[found["quantity"] == "gap"][["gap", "seeds", "prompts"]].to_string(index=False).splitlines()
    [' gap  seeds  prompts', ' 0.5      1     65.0', ' 0.5      4     42.0']
    """
    from triptych.cli.power import parser, result

    return result(_parsed(parser(), run, **options))


def labels(run: LoadedRun | str | os.PathLike[str], *files: str | os.PathLike[str], **options: Any) -> Result:
    """Write a sheet on which people label images of a run or, given their files, read the labels into the run.

    Parameters
    ----------
    run : LoadedRun or path
    *files : path
        What the sheet's page exported, of several annotators; without files a sheet is written.
    **options
        Of a sheet, as of ``triptych labels sheet``: ``out``, ``about``, ``images``, ``objects``, ``seed``; of files
        ``replace``, whether they correct what the same annotators said before.

    Returns
    -------
    Result
        ``table`` has a row for each question on the sheet, or for each label that the run holds.

    Raises
    ------
    UserError
        There is no such option, or a label is not one of the sheet; the line names the row.

    Examples
    --------
    >>> triptych.labels("runs/first-light", about="questions")  # doctest: +SKIP
    >>> triptych.labels("runs/first-light", "labels.csv")  # doctest: +SKIP
    """
    from triptych.cli.labels import parser, result

    return result(_parsed(parser(), "read" if files else "sheet", run, *files, **options))


def verify(model: str | os.PathLike[str], **options: Any) -> Verification:
    """Compare what is read of a model with what the model itself computes, on this machine; lines are printed.

    Parameters
    ----------
    model : str or path
        As of `load_pipeline`.
    **options
        Those of ``triptych verify``: ``images``, ``steps``, ``size``, ``device``, ``dtype``; ``out``, its folder.

    Returns
    -------
    Verification
        ``table`` has a row for each check: ``check``, ``status`` (pass, fail, cannot be tested), ``text``, ``numbers``.

    Raises
    ------
    UserError
        There is no such option, or the model cannot be loaded.

    Examples
    --------
    >>> triptych.verify("toyworld", out="verified").failed  # doctest: +SKIP
    False
    """
    from triptych.cli.verify import parser, result

    return result(_parsed(parser(), model, **options))


def _parsed(parser: argparse.ArgumentParser, *words: Any, **options: Any) -> argparse.Namespace:
    """Return the options of a command as its parser reads them, given by name; None is left out."""
    words = tuple(str(one.path if isinstance(one, LoadedRun) else one) for one in words if one is not None)
    for name, value in options.items():
        values = [] if value is True else value if isinstance(value, list | tuple) else [value]
        if value is not None and value is not False:
            words += (f"--{name.replace('_', '-')}", *map(str, values))
    return parser.parse_args(words)


def load_pipeline(
    model: str | os.PathLike[str] = "toyworld",
    *,
    device: str = "auto",
    dtype: str = "auto",
    scheduler: str | None = None,
) -> Any:
    """Return a diffusers pipeline as a run would load it, for `triptych.Probe` and `triptych.Intervention`.

    Parameters
    ----------
    model : str or path
        A bundled model, a hub id, a folder of diffusers, or a ``.safetensors`` or ``.ckpt`` file.
    device : str
        ``auto`` (a GPU if there is one), ``cpu``, ``cuda``, ``cuda:1``, ``mps``.
    dtype : str
        ``auto``, ``float32``, ``float16`` or ``bfloat16``.
    scheduler : str, optional
        Such as ``ddim``; the model's own by default.

    Raises
    ------
    UserError
        There is no such model, device or scheduler, or the files are damaged.
    """
    from probes.models import loading

    source = loading.resolve(os.fspath(model))
    return loading.load(source, device=device, dtype=dtype, scheduler=scheduler).pipe


def sites(pipe: Any) -> pd.DataFrame:
    """Return a table of the sites of a pipeline that a `triptych.Probe` can read, in the order in which they run.

    Parameters
    ----------
    pipe : DiffusionPipeline
        As of `load_pipeline`, or any of diffusers whose architecture is known.

    Returns
    -------
    DataFrame
        One row per site: ``site`` (its address), ``space`` (``prompt``, ``denoising`` or ``image``), ``shape`` of what
        is read for one image, ``per_step`` (whether at every step), ``default`` (whether a pattern with ``*`` chooses
        it; others are read where they are named), ``patchable`` (whether a `triptych.Patch` can write there).

    Raises
    ------
    UserError
        The pipeline is of an architecture that is not known.
    """
    import pandas as pd

    from hooks import sites as known
    from hooks.errors import HookError

    try:
        shapes, readable = known.shapes(pipe), known.available(pipe)
    except HookError as error:
        raise UserError(str(error)) from None
    columns = {
        "site": [site.address for site in readable],
        "space": [site.space for site in readable],
        "shape": [shapes[site.address] for site in readable],
        "per_step": [site.per_step for site in readable],
        "default": [site.default for site in readable],
        "patchable": [site.read_only is None for site in readable],
    }
    return pd.DataFrame(columns)


def config_or_path(config: Configuration) -> str | Config | Mapping[str, Any]:
    """Return the path in a configuration that is a run or a path, else the configuration; UserError otherwise."""
    if isinstance(config, LoadedRun):
        return str(config.path)
    if isinstance(config, Config | Mapping):
        return config
    if isinstance(config, str | os.PathLike):
        return os.fspath(config)
    raise UserError(
        f"config: expected the path of triplets.yaml or of a run, a mapping or a triptych.Config, got {config!r:.60}:"
        " pass one of them"
    )


def flatten_changes(changes: Mapping[str, Any]) -> Overrides:
    """Return changed configuration fields as ``{path of keys: (name, value)}``; UserError for an unknown field.

    >>> flatten_changes({"seeds": range(2), "sampler": {"steps": 4}})
    {('seeds',): ('seeds', [0, 1]), ('sampler', 'steps'): ('sampler.steps', 4)}
    """
    flattened: dict[tuple[str, ...], tuple[str, Any]] = {}
    for name, value in changes.items():
        if name not in Config.model_fields:
            raise UserError(f"{name}: unknown field, got {value!r:.60}: {_field_hint(name)}")
        value = to_plain_data(value)
        # an empty mapping asks for an optional section with its defaults, and of any other changes nothing
        if name != "images" and _section_models(name) and isinstance(value, Mapping):
            flattened |= {(name, key): (f"{name}.{key}", one) for key, one in value.items()}
            if value or Config.model_fields[name].default is not None:
                continue
        flattened[name,] = (name, value)
    return flattened


def _section_models(name: str) -> list[type[BaseModel]]:
    """Return the pydantic models that a field of `Config` may hold as a section; empty if it is a plain value."""
    annotation = Config.model_fields[name].annotation
    kinds = get_args(annotation) if get_origin(annotation) is UnionType else (annotation,)
    return [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]


def _field_hint(name: str) -> str:
    """Return a hint on an unknown field name: the section that has it, the closest field, or where all are."""
    close = difflib.get_close_matches(name, [*Config.model_fields, "stage", "overwrite", "progress"], 1)
    for section in () if f"{name}s" in close else Config.model_fields:
        if any(name in kind.model_fields for kind in _section_models(section)):
            return f"did you mean {section}={{{name!r}: ...}}?"
    return f"did you mean {close[0]}?" if close else "see help(triptych.Config)"
