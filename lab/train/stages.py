"""The runner of every training: stages with what each reads and makes, one parser, one line for a wrong start.

A stage goes on from what it left in ``--work``, so that a training can be done in several sittings. Under ``torchrun``
all processes take every stage, but for those that one process does alone.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import diffusers
import torch
from torch import distributed

from probes import command_line
from probes.errors import UserError

RESUMES = "run the same command again, a stage goes on from what it left in --work"  # said after Control-C
Options = argparse.Namespace


def rank() -> int:
    """Number of this process among those that ``torchrun`` started; 0 alone."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def _nothing(_: Options) -> tuple[()]:
    return ()


def _unconditional(_: Options) -> None:
    pass


@dataclass(frozen=True)
class Stage:
    """A part of a training, as ``--stage`` names it.

    ``reads`` gives the files that must be there before (a tuple stands for any one of its files), ``makes`` those that
    are there after it; ``check`` refuses options or folders that do not let it start; ``exports`` writes to the folders
    of weights; ``alone``: one process of several does it.
    """

    name: str
    run: Callable[[Options], None]
    reads: Callable[[Options], Iterable[Path | tuple[Path, ...]]] = _nothing
    makes: Callable[[Options], Iterable[Path]] = _nothing
    check: Callable[[Options], None] = _unconditional
    exports: bool = False
    alone: bool = False


@dataclass(frozen=True)
class Trainer:
    """A training: its stages in the order in which they run, and its command line.

    ``work`` and ``weights`` are defaults of the options of that name; ``usual`` the stages that run where none is
    named; ``outputs`` the folders of weights that stages write to; ``remedy`` what else helps where a file is missing;
    ``after`` is called with a stage, the options and its minutes when one has ended, in the first process.
    """

    module: str
    about: str
    stages: tuple[Stage, ...]
    add_options: Callable[[command_line.Parser], None]
    work: str = "training"
    weights: Path | None = None
    weights_help: str = "where export writes"
    epilog: str | None = None
    usual: tuple[str, ...] = ()
    outputs: Callable[[Options], Iterable[Path]] = lambda options: [options.weights]
    check: Callable[[Options], None] = _unconditional
    remedy: str = ""
    after: Callable[[Stage, Options, float], None] = lambda stage, options, minutes: None

    def parser(self) -> argparse.ArgumentParser:
        """Return the command line's options."""
        main = command_line.Parser(
            prog=f"python -m {self.module}",
            description=self.about.split("\n\n")[0],
            formatter_class=argparse.ArgumentDefaultsHelpFormatter,
            epilog=self.epilog,
        )
        names = [stage.name for stage in self.stages]
        main.add_argument("--work", type=Path, default=Path(self.work), help="folder of intermediate results")
        main.add_argument(
            "--stage", nargs="+", choices=names, default=list(self.usual or names), help="stages to run"
        )
        main.add_argument("--weights", type=Path, default=self.weights, help=self.weights_help)
        self.add_options(main)
        main.add_argument("--seed", type=command_line.seed, default=0)
        main.add_argument("--threads", type=command_line.threads, default=1)
        return main

    def run(self, options: Options) -> None:
        """Check that the stages that were asked for can start, and run them in their order."""
        chosen = [stage for stage in self.stages if stage.name in options.stage]
        self.check_stages(options)
        command_line.writable(options.work, folder=True)
        if any(stage.exports for stage in chosen):
            for folder in self.outputs(options):
                command_line.writable(folder, folder=True)
        torch.set_num_threads(options.threads)
        options.work.mkdir(parents=True, exist_ok=True)
        with _processes() as wait_for_all:
            for stage in chosen:
                started = time.monotonic()
                if not stage.alone or rank() == 0:
                    stage.run(options)
                if rank() == 0:
                    self.after(stage, options, (time.monotonic() - started) / 60)
                wait_for_all()

    def check_stages(self, options: Options) -> None:
        """Check that every stage that was asked for will find what it reads."""
        self.check(options)
        made: set[Path] = set()
        for stage in self.stages:
            if stage.name in options.stage:
                for files in stage.reads(options):
                    either = files if isinstance(files, tuple) else (files,)
                    if not any(path in made or path.exists() for path in either):
                        raise UserError(self._missing(stage, either, options))
                stage.check(options)
                made |= {*stage.makes(options)}

    def _missing(self, stage: Stage, files: tuple[Path, ...], options: Options) -> str:
        usual = [
            one for one in self.stages if one is not stage and (not self.usual or one.name in self.usual)
        ]
        makers = [one.name for path in files for one in usual if path in one.makes(options)]
        first, *others = files
        names = " or ".join([str(first), *(path.name for path in others)])
        return (
            f"--work: stage {stage.name}: expected {names}, found none:"
            f" run --stage {' or '.join(dict.fromkeys(makers))} before it{self.remedy}"
        )


@contextmanager
def _processes() -> Iterator[Callable[[], None]]:
    """Join the processes that ``torchrun`` started; give what waits for all of them."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield lambda: None
        return
    distributed.init_process_group("gloo", timeout=timedelta(hours=2))
    yield distributed.barrier
    distributed.destroy_process_group()


def last_logged(log: Path) -> dict:
    """Return the last line of a log (`lab.train.base.loop.Log`)."""
    return json.loads(log.read_text().splitlines()[-1])


def add_history(path: Path, line: str) -> None:
    """Say in a history what a sitting did: a line, at the end."""
    with path.open("a") as file:
        print(line, file=file)


def write_recipe(folder: Path, recipe: Mapping[str, object]) -> None:
    """Write how the weights of a folder were made, into ``recipe.json``."""
    write_json(folder / "recipe.json", recipe)


def write_json(path: Path, content: Mapping[str, object], indent: int = 1) -> None:
    """Write a JSON file, with its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=indent) + "\n")


def made_with() -> dict[str, object]:
    """Return what a recipe says of the machine and of the libraries."""
    versions = {"torch": torch.__version__, "diffusers": diffusers.__version__}
    return {"versions": versions, "machine": platform.machine()}
