"""Races of several models: each draws its next part, and who is surely behind another draws no more."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from probes.config.schema import Config
from probes.errors import UserError
from probes.execution import signals
from probes.json_text import parse_json
from probes.runs.parts import part_files, write_bytes
from probes.runs.store import Run
from triptych import stages
from triptych.request import Command
from triptych.request_configuration import Chosen

if TYPE_CHECKING:
    from analysis.methods.stopping.race.looks import EntrantLooks, RaceLook
    from analysis.methods.stopping.race.question import RaceQuestion
    from analysis.methods.stopping.race.result import Race

RECORD, DEFAULT = "race.json", Path("runs/race")
_PLAIN = re.compile(r"[^\w.-]+")


@dataclass
class _Racer:
    """An entrant while it is drawn.

    Attributes
    ----------
    command : Command
        That makes its run.
    config : Config
        As it is planned.
    race : mapping
        What its record keeps of the race.
    """

    command: Command
    config: Config
    race: Mapping[str, Any]
    looks: EntrantLooks | None = None
    parts: int = 0  # that it is known to have

    def draw(self, parts: int) -> EntrantLooks:
        """Draw the first so many parts, as far as they are not there; return what looks at them."""
        from analysis.methods.stopping.looks import registered
        from analysis.methods.stopping.race.looks import EntrantLooks

        if self.parts < parts:  # the first time in this process what is there is checked
            self.parts = max(parts, len(part_files(self.config.out_path / "samples")))
            stages.run(self._command("generate"))
        if self.looks is None:
            run = Run.open(self.config.out_path)
            self.looks = EntrantLooks(run, run.config, registered(run, run.config, racing=True))
        return self.looks

    def finish(self) -> None:
        """Go through the stages that are left of its run."""
        stages.run(self._command(None))

    def _command(self, stage: str | None) -> Command:
        from analysis.methods.stopping.race.looks import RaceEntry

        return replace(self.command, stage=stage, entry=RaceEntry(self.parts, self.race))


def entrants(
    configs: Sequence[str | Config | Mapping[str, Any]],
    models: Sequence[str],
    chosen: Chosen,
    out: Path,
    *,
    quiet: bool,
) -> dict[str, Command]:
    """Return the commands that make the runs of a race, by the names of the entrants.

    Parameters
    ----------
    configs : sequence of path, mapping or Config
        One for each entrant; or one alone, with the models that take the place of its own.
    models : sequence of str
    chosen : mapping
        What is put over each of them, see `triptych.request.Command`.
    out : pathlib.Path
        Folder of the race.
    quiet : bool

    Raises
    ------
    UserError
        There are several of both, or two have the same name.
    """
    if models and len(configs) > 1:
        raise UserError(
            f"--models: expected one configuration for all of them, got {len(configs)}: leave out one of both"
        )
    pairs = [(configs[0], model) for model in models] or [(config, "") for config in configs]
    names = [_PLAIN.sub("-", PurePath(model).name) for model in models] or _names(configs)
    for place, name in enumerate(names):
        if name in names[:place] or name in ("", ".", ".."):
            raise UserError(f"race: expected entrants of different names, got {name!r:.60} twice: rename one")
    found = {}
    for name, (config, model) in zip(names, pairs):
        over: dict[tuple[str, ...], tuple[str, Any]] = {
            ("name",): ("name", name),
            ("out",): ("--out", str(out / name)),
        }
        if model:
            over["model",] = ("--models", model)
        over["stop", "question"] = ("stop.question", "gap")
        found[name] = Command(config, {**chosen, **over}, quiet=quiet, announce=False)
    return found


def _names(configs: Sequence[str | Config | Mapping[str, Any]]) -> list[str]:
    """The names of configurations, or of their files where two are the same."""
    from triptych.request import read_request

    names = [read_request(Command(config, quiet=True)).config.name for config in configs]
    if len({*names}) == len(names):
        return names
    return [
        PurePath(config).stem if isinstance(config, str) else name for config, name in zip(configs, names)
    ]


def race(commands: Mapping[str, Command], find: str, out: Path, *, these_words: bool = False) -> Race:
    """Race entrants against each other; return what was found, once their runs and the page are written.

    Called again it goes on where it stopped: what is decided follows from the parts alone.

    Parameters
    ----------
    commands : mapping of str to Command
        Of `entrants`.
    find : str
        ``most``, ``least`` or a side of the contrast.
    out : pathlib.Path
        Folder of the race.
    these_words : bool
        Ask about these words alone.

    Raises
    ------
    UserError
        The entrants differ in what must be the same, one of them cannot be drawn, or the folder holds another race.
    """
    from analysis.methods.stopping.looks import prompts_at_looks
    from analysis.methods.stopping.race.question import RaceQuestion
    from analysis.methods.stopping.race.result import Race

    configs = {
        name: stages.planned(replace(command, dry=True, quiet=True))[0].config
        for name, command in commands.items()
    }
    for name, config in configs.items():
        if config.clustered:
            raise UserError(
                f"race: expected models that this machine draws, got a cluster for {name}: leave it out"
            )
    question = RaceQuestion.of(configs, find, these_words=these_words)
    record = question.record()
    _register(out, record)
    signals.raise_from_here()
    config = next(iter(configs.values()))
    kept = {name: record[name] for name in ("sha256", "find")}
    running = _Running(
        question,
        [_Racer(command, configs[name], kept) for name, command in commands.items()],
        {
            prompts: part
            for part, prompts in enumerate(prompts_at_looks(config, question.asked), 1)
            if prompts
        },
        next(iter(commands.values())),
    )
    running.run(out, record)
    images = len(configs) * running.images(max(running.parts.values()))
    found = Race(out, question, running.looks, config.reference, images)
    for racer in running.racers:
        racer.finish()
    found.write()
    return found


def _register(out: Path, record: Mapping[str, Any]) -> None:
    """Write the question of a race before its first image, once its folder is found to hold no other."""
    path = out / RECORD
    if path.exists():
        there = _read(path)
        name = next((name for name in record if there.get(name) != record[name]), None)
        if name is not None:
            was, now = (json.dumps(side.get(name), ensure_ascii=False) for side in (there, record))
            raise UserError(
                f"{out}: holds another race: {name} is {was:.80} there, expected {now:.80}: choose another --out"
            )
        return
    _write(path, record)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = parse_json(path.read_bytes())
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UserError(
            f"{path}: expected the record of a race, got something else: remove it, or another --out"
        )
    return found


def _write(path: Path, record: Mapping[str, Any]) -> None:
    write_bytes(path, (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode())


@dataclass
class _Running:
    """A race that is run.

    Attributes
    ----------
    question : RaceQuestion
    racers : list of _Racer
    parts : mapping of int to int
        After how many parts there are so many prompts, of each look.
    teller : Command
        That tells the user.
    """

    question: RaceQuestion
    racers: list[_Racer]
    parts: Mapping[int, int]
    teller: Command
    looks: list[RaceLook] = field(default_factory=list)

    def run(self, out: Path, record: Mapping[str, Any]) -> None:
        """Draw and look until the race has ended."""
        from analysis.stats.elimination import eliminations

        standings = eliminations(len(self.racers), self.parts, self._leads, within=self.question.asked.within)
        unit = self.question.asked.unit
        for standing in standings:
            self.looks[-1] = replace(self.looks[-1], standing=standing)
            names = [one.name for one in self.question.entrants]
            left = {names[one]: names[by] for one, by in standing.left.items()}
            for one, by in left.items():
                self.teller.say(f"race: after {standing.look} {unit}s {one} is out, {by} is ahead of it")
        outcome = {
            "ended": standing.ended or "open",
            "n_prompts": standing.look,
            "remaining": [names[one] for one in standing.remaining],
        }
        _write(out / RECORD, {**record, **outcome})

    def images(self, parts: int) -> int:
        """Return how many images so many parts of an entrant have."""
        config = self.racers[0].config
        asked = self.question.asked
        each = asked.given or len(config.seeds)
        draws = min(parts * config.generate.part_triplets, asked.most * each)
        return draws * len(config.indicators)

    def _leads(self, prompts: int, remaining: Iterable[int]) -> dict:
        """Draw who is left to a look, and compare every two of them."""
        from analysis.methods.stopping.race.looks import RaceLook, compared
        from analysis.stats.elimination import RaceStanding

        parts = self.parts[prompts]
        gaps = {one: self.racers[one].draw(parts).gathered(parts) for one in remaining}
        leads = {
            (one, other): compared(self.question, gaps[one], gaps[other], prompts)
            for one, other in combinations(remaining, 2)
        }
        alone = {one: self.racers[one].draw(parts).at(parts) for one in remaining}
        empty = RaceStanding(prompts, tuple(remaining), {}, {}, "")
        self.looks.append(RaceLook(empty, alone, leads, self.images(parts)))
        return {pair: (found.low, found.high) for pair, found in leads.items()}
