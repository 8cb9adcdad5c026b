"""The runner of every training: stages with what each needs and makes, one command line, one history, one recipe.

A stage goes on from what it left in ``--work``, so that a training can be done in several sittings.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import diffusers
import torch

from lab.commands import add_arguments
from probes import command_line
from probes.errors import UserError

RESUMES = "run the same command again, a stage goes on from what it left in --work"  # said after Control-C
Options = argparse.Namespace
Names = Iterable[str | tuple[str, ...]]


@dataclasses.dataclass(frozen=True)
class Stage:
    """A part of a training, as ``--stage`` names it.

    ``needs`` are files of the work folder that must be there before (a tuple stands for any one of its files), or a
    function of the options that gives them; ``makes`` those that are there after it. ``{model}`` stands for each model
    that is asked for. ``exports``: it writes to the folder of weights.
    """

    name: str
    run: Callable[[Options], None]
    needs: Names | Callable[[Options], Names] = ()
    makes: tuple[str, ...] = ()
    exports: bool = False


@dataclasses.dataclass(frozen=True)
class Trainer:
    """A training: its stages in the order in which they run, and ``recipe``, a dataclass of its numbers and options.

    ``work`` and ``weights`` are the folders it works in and exports to; ``check`` refuses options.
    """

    about: str
    recipe: type
    stages: tuple[Stage, ...]
    work: str
    weights: Path
    check: Callable[[Options], None] = lambda options: None

    def main(self, prog: str, argv: Sequence[str]) -> int:
        """Run a command line; return its exit status."""
        parser = command_line.Parser(prog=prog, description=self.about)
        names = [stage.name for stage in self.stages]
        parser.add_argument(
            "--work", type=Path, default=Path(self.work), help="folder of intermediate results"
        )
        parser.add_argument("--stage", nargs="+", choices=names, default=names, help="stages to run")
        parser.add_argument("--weights", type=Path, default=self.weights, help="where export writes")
        add_arguments(parser, self.recipe)
        parser.add_argument("--seed", type=command_line.seed, default=0)
        parser.add_argument("--threads", type=command_line.threads, default=1)
        return command_line.run(self.run, parser, argv, interrupted=RESUMES)

    def run(self, options: Options) -> None:
        """Check that the stages that were asked for can start, and run them in their order."""
        chosen = [stage for stage in self.stages if stage.name in options.stage]
        self.check(options)
        self._check_files(chosen, options)
        command_line.writable(options.work, folder=True)
        if any(stage.exports for stage in chosen):
            command_line.writable(options.weights, folder=True)
        torch.set_num_threads(options.threads)
        options.work.mkdir(parents=True, exist_ok=True)
        for stage in chosen:
            started = time.monotonic()
            stage.run(options)
            if not stage.exports:
                self._add_history(stage, options, (time.monotonic() - started) / 60)

    def _check_files(self, chosen: Iterable[Stage], options: Options) -> None:
        """Check that each stage will find what it needs, in the work folder or made by a stage before it."""
        made: set[str] = set()
        for stage in chosen:
            for names in stage.needs(options) if callable(stage.needs) else stage.needs:
                for either in _for_models(names if isinstance(names, tuple) else (names,), options):
                    if not any(name in made or (options.work / name).exists() for name in either):
                        raise UserError(self._missing(stage, either, options))
            made |= {name for one in _for_models(stage.makes, options) for name in one}

    def _missing(self, stage: Stage, names: tuple[str, ...], options: Options) -> str:
        makers = [
            one.name
            for name in names
            for one in self.stages
            if any(name in made for made in _for_models(one.makes, options))
        ]
        return (
            f"--work: stage {stage.name}: expected {options.work / ' or '.join(names)}, found none:"
            f" run --stage {' or '.join(dict.fromkeys(makers))} before it"
        )

    def _add_history(self, stage: Stage, options: Options, minutes: float) -> None:
        """Say in the history what a stage did: where its logs end, for how long, and what was unlike the recipe."""
        usual = self.recipe()
        changed = {
            field.name: value
            for field in dataclasses.fields(usual)
            if isinstance(value := getattr(options, field.name), int | float | str)
            and value != getattr(usual, field.name)
        }
        of_models = "{model}" in "".join(stage.makes)
        names = [name for (name,) in _for_models(("{model}" if of_models else stage.name,), options)]
        logs = {name: path for name in names if (path := options.work / f"{name}.log.jsonl").exists()}
        steps = ", ".join(f"{name} past step {last_logged(path)['step']}" for name, path in logs.items())
        line = f"{stage.name}: {steps + ', ' if steps else ''}{minutes:.1f} min, seed {options.seed}"
        with (options.work / "history.txt").open("a") as file:
            print(line + (f"; unlike the recipe: {changed}" if changed else ""), file=file)


def _for_models(names: Iterable[str], options: Options) -> list[tuple[str, ...]]:
    """Names with each model that is asked for in the place of ``{model}``."""
    models = getattr(options, "model", None) or [""]
    models = [models] if isinstance(models, str) else models
    if not any("{model}" in name for name in names):
        return [tuple(names)]
    return [tuple(name.format(model=model) for name in names) for model in models]


def last_logged(log: Path) -> dict:
    """The last line of a log (`lab.train.base.loop.Log`)."""
    return json.loads(log.read_text().splitlines()[-1])


def write_recipe(folder: Path, options: Options, before: Iterable[str] = (), **more: object) -> None:
    """Write into ``recipe.json`` how the weights of a folder were made: what was done, and the last time's numbers."""
    history = options.work / "history.txt"
    done = history.read_text().splitlines() if history.exists() else []
    numbers = {name: value for name, value in vars(options).items() if isinstance(value, int | float)}
    versions = {"torch": torch.__version__, "diffusers": diffusers.__version__}
    recipe = {**numbers, **more, "history": [*before, *(line for line in done if line not in before)]}
    write_json(folder / "recipe.json", recipe | {"versions": versions, "machine": platform.machine()})


def write_json(path: Path, content: Mapping[str, object], indent: int = 1) -> None:
    """Write a JSON file, with its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=indent) + "\n")
