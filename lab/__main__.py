"""The laboratory: ``python -m lab list`` says what each part makes, how long it takes and which page it writes.

``python -m lab train NAME``, ``measure NAME`` and ``page NAME`` run one, with options of its own (``--help``).
"""

from __future__ import annotations

import importlib
import runpy
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from probes import command_line
from probes.errors import UserError

VERBS = {
    "train": "make weights anew; a stage goes on from what it left in --work",
    "measure": "measure, and write figures beside the weights, or a page",
    "page": "print or write a page from what is stored",
}


@dataclass(frozen=True)
class Command:
    """A part of the laboratory: what it makes, how long that takes, and which page of the docs it is for.

    ``target`` is a module that is run as a command, or a module and its `Trainer` or function, with a colon between.
    It is loaded only when it is run.
    """

    verb: str
    name: str
    target: str
    makes: str
    time: str
    page: str = ""


_TOYWORLD, _MITIGATION = "docs/validation/toyworld.md", "docs/validation/mitigation.md"
_DETECTORS, _QUESTIONS = "docs/validation/detectors.md", "docs/validation/questions.md"
_LONG = "minutes to hours"
PARTS = (
    Command("train", "base", "lab.train.base.train:TRAINER", "toyworld, -mirror, -null, CLIP", "hours"),
    Command("train", "synonyms", "lab.train.base.synonyms:TRAINER", "toyworld-synonyms, -null", _LONG),
    Command("train", "work", "lab.train.work.train:TRAINER", "toyworld-work, -null", "hours"),
    Command(
        "train", "located", "lab.train.located.train:TRAINER", "toyworld-cross-4, -5, -coded-null", "minutes"
    ),
    Command("train", "dit", "lab.train.dit.train:TRAINER", "toyworld-dit, -null", "hours; minutes on a GPU"),
    *(
        Command("train", name, f"lab.train.networks:TRAINERS.{name}", made, time)
        for name, made, time in (
            ("sam", "the small Segment Anything", "minutes"),
            ("grounding-dino", "the small Grounding DINO", "an hour"),
            ("ram", "the small RAM on a fixed image encoder", "an hour"),
            ("ram-whole", "the small RAM and its image encoder, further", "an hour"),
            ("resnet50", "the small ResNet of features", "minutes"),
            ("dino", "the small DINO of features", "half an hour"),
            ("clip", "toyworld's CLIP, further", "half an hour"),
            ("vqa", "the small network that answers questions", "minutes"),
        )
    ),
    Command("measure", "base", "lab.train.base.measure:measure", "nouns and frequencies", _LONG, _TOYWORLD),
    Command("measure", "synonyms", "lab.train.base.synonyms:measure", "synonyms' pictures", _LONG, _TOYWORLD),
    Command("measure", "located", "lab.train.located.measure:measure", "total effects", _LONG, _TOYWORLD),
    Command("measure", "work", "lab.train.work.measure:measure", "leans and skins", _LONG, _TOYWORLD),
    Command(
        "measure", "detectors", "lab.train.detectors.measure:measure", "readers' accuracy", _LONG, _DETECTORS
    ),
    Command(
        *("measure", "features", "lab.train.features.measure:measure", "what features tell", "minutes"),
        "docs/reference/features.md",
    ),
    Command("measure", "vqa", "lab.train.questions.measure:measure", "answers' accuracy", _LONG, _QUESTIONS),
    *(
        Command("measure", name, f"lab.validate.{module}", made, time, f"docs/validation/{page}.md")
        for name, module, made, time, page in (
            ("alignment", "alignment", "R-precision, captions, FID, KID", "minutes", "alignment"),
            ("calibration", "models.calibrate", "gaps beside what was planted", _LONG, "calibration"),
            ("dalleval", "dalleval", "audits by professions", _LONG, "dalleval_answers"),
            ("gep", "gep", "GEP's estimates", _LONG, "gep_audits"),
            ("skills", "skills", "skills on rendered scenes", _LONG, "paintskills"),
            ("skin-tone", "skin_tone", "skin tones of known colours", _LONG, "skin_tone"),
            ("statistics", "statistics.page", "error rates, coverage", _LONG, "statistics"),
            ("stopping", "statistics.stopping", "runs that stop by themselves", "hours", "stopping"),
            ("tracing", "tracing", "methods of localisation", _LONG, "tracing"),
            ("certificates", "tracing.certificates", "effects of all subsets of places", _LONG, "tracing"),
            ("edits", "tracing.edited", "effect and cost of an edit", "an hour", "mitigation"),
            ("word-maps", "word_maps", "word maps beside exact masks", _LONG, "word_maps"),
        )
    ),
    Command("page", "toyworld", "lab.pages.toyworld", "how well models were taught", "seconds", _TOYWORLD),
    Command(
        "page", "detectors", "lab.train.pages:detectors_page", "detectors' accuracy", "seconds", _DETECTORS
    ),
    Command(
        "page", "questions", "lab.train.pages:questions_page", "answers' accuracy", "seconds", _QUESTIONS
    ),
    *(
        Command("page", name, f"lab.validate.{module}", made, "seconds", f"docs/validation/{page}.md")
        for name, module, made, page in (
            ("calibration", "models.calibrate", "gaps beside what was planted", "calibration"),
            ("dalleval", "dalleval", "audits by professions", "dalleval_answers"),
            ("gep", "gep", "GEP's estimates", "gep_audits"),
            ("skills", "skills", "skills on rendered scenes", "paintskills"),
            ("skin-tone", "skin_tone", "skin tones of known colours", "skin_tone"),
            ("statistics", "statistics.page", "error rates, coverage", "statistics"),
            ("tracing", "tracing", "methods of localisation", "tracing"),
            ("word-maps", "word_maps", "word maps beside exact masks", "word_maps"),
        )
    ),
    Command(
        *("page", "benchmarks", "tests.benchmarks.page", "what it costs", "seconds"),
        "docs/validation/benchmarks.md",
    ),
    Command(
        *("page", "reproduction", "lab.papers.reproduce", "what three papers print, recomputed", "seconds"),
        "docs/validation/reproduction.md",
    ),
    Command(
        "page", "default-run", "lab.pages.default_run", "blocks on the default run", "seconds", "docs/start/"
    ),
    Command(
        *("page", "report-picture", "lab.pages.report_picture", "the picture of a report", "seconds"),
        "docs/explanation/reading_the_report.md",
    ),
    Command("page", "figure", "lab.pages.page_figure", "the picture of heat maps", "seconds", "docs/images/"),
    Command(
        "page", "verified", "lab.pages.verified", "verified models", "seconds", "docs/validation/verified.md"
    ),
    *(
        Command(
            "page",
            name.replace("_", "-"),
            f"lab.pages.{module}",
            made,
            "seconds",
            f"docs/reference/{name}.md",
        )
        for name, module, made in (
            ("command_line", "command_line", "every command"),
            ("configuration", "configuration", "every option of triplets.yaml"),
            ("metrics", "metric_list", "every metric"),
            ("sites", "sites", "every site"),
            ("tables", "tables", "every result table"),
        )
    ),
)


def listing() -> str:
    """A table of all parts."""
    rows = [("command", "makes", "time", "page")]
    rows += [(f"{part.verb} {part.name}", part.makes, part.time, part.page) for part in PARTS]
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def run(part: Command, argv: Sequence[str]) -> int:
    """Run a part, and return the exit status."""
    from lab import commands

    module, _, attribute = part.target.partition(":")
    prog = f"python -m lab {part.verb} {part.name}"
    if not attribute:
        sys.argv = [prog, *argv]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return 0
    value, _, key = attribute.partition(".")
    target = getattr(importlib.import_module(module), value)
    if part.verb == "train":
        return (target[key] if key else target).main(prog, argv)
    if part.verb == "page":
        parser = command_line.Parser(prog=prog, description=f"Print {part.page}.")
        return command_line.run(lambda options: print(target(), end=""), parser, argv)
    return commands.measure(target, prog, argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    verb, *rest = [*(sys.argv[1:] if argv is None else argv), "--help"]
    names = {part.name: part for part in PARTS if part.verb == verb}
    if names and rest[0] in names:
        return run(names[rest[0]], [*rest[1:-1]])

    def work(options: object) -> None:
        if verb != "list":
            raise UserError(f"command line: {verb}: expected one of {', '.join(names)}, got {rest[0]!r}")
        print(listing())

    parser = command_line.Parser(prog="python -m lab", description=__doc__)
    commands = parser.add_subparsers(dest="verb", required=True)
    commands.add_parser("list", help="what each part makes, how long it takes, which page it writes")
    for name, help_ in VERBS.items():
        commands.add_parser(name, help=help_).add_argument(
            "name", metavar="NAME", choices=[part.name for part in PARTS if part.verb == name]
        )
    return command_line.run(work, parser, argv)


if __name__ == "__main__":
    sys.exit(main())
