"""The command line, ``triptych prompts build captions.json --out FOLDER``: triplets from captions or a set."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from probes import command_line
from probes.errors import UserError, printable
from probes.prompts import build, sets
from probes.prompts.captions import WORDS
from probes.prompts.formats import FORMATS
from probes.prompts.neutral import Articles, Forms
from probes.prompts.source import DATASETS
from probes.storage.paths import expand

EXAMPLES = {
    "triptych prompts build captions_train2017.json --out coco": (
        "COCO's neutral captions, as Wu et al. 2025 choose them; then: triptych run coco/triplets.yaml"
    ),
    'triptych prompts build notes.csv --column text --indicators neutral=person old="old person" --out old': (
        "any table, and other words"
    ),
    "triptych prompts build professions --out professions": "320 professions of Wu et al. 2025, Table 3",
}


def parser() -> command_line.Parser:
    """Return the parser of the command's arguments."""
    listed = "\n".join(f"  {name:<14} {what}" for name, what in FORMATS.items())
    main = command_line.Parser(
        prog="triptych prompts",
        description="Make prompts for a run from captions or from a set.",
        examples={
            "triptych prompts build professions --out professions": "320 professions of Wu et al. 2025"
        },
    )
    commands = main.add_subparsers(dest="command", required=True, metavar="build")
    make = commands.add_parser(
        "build",
        help="write a triplets.yaml with prompts made from captions",
        description="Write a triplets.yaml with prompts made from captions, print ten of them and what was left out.",
        epilog=f"formats, recognised by the content unless named:\n{listed}\n  {DATASETS:<14} a name for the package"
        " `datasets`",
        examples=EXAMPLES,
    )
    make.add_argument(
        "source", help=f"a file of captions, a set ({', '.join(sets.names())}), or a data set's name"
    )
    make.add_argument("--out", required=True, metavar="FOLDER", help="folder to write triplets.yaml to")
    make.add_argument(
        "--format",
        choices=("auto", *FORMATS, DATASETS),
        metavar="FORMAT",
        help="format of the file, one of those below (default: auto, recognised by the content)",
    )
    make.add_argument(
        "--column",
        metavar="NAME",
        help="column of a table that holds the captions (default: the first of caption, sentence, text and their like)",
    )
    make.add_argument(
        "--split", metavar="NAME", help="split of a data set: train, validation ... (default: its only one)"
    )
    make.add_argument(
        "--setting", metavar="NAME", help="setting of a set: neutral or explicit of gep (default: all)"
    )
    make.add_argument(
        "--indicators",
        nargs="+",
        metavar="NAME=WORD",
        help="words that take the place of the person; the first is the reference; WORD/PLURAL where the dictionary"
        " has no plural"
        " (default: neutral=person feminine=woman masculine=man)",
    )
    make.add_argument(
        "--human-words",
        choices=get_args(Forms),
        help="which words for people a caption may hold: those of Wu et al. 2025, Table 2, with their inflected"
        " forms, or as printed there alone (default: inflected)",
    )
    make.add_argument(
        "--articles",
        choices=get_args(Articles),
        help="a or an to fit the word that follows, or kept as it was, as the paper does: an female ..."
        " (default: fitting)",
    )
    make.add_argument("--max-words", metavar="N", help=f"leave out captions of more words (default: {WORDS})")
    make.add_argument("--limit", metavar="N", help="only the first N prompts (default: all)")
    make.add_argument("--model", help="model to write into triplets.yaml (default: toyworld)")
    make.add_argument("--overwrite", action="store_true", help="replace what an earlier build wrote")
    return main


def _indicators(texts: Sequence[str] | None, of_professions: bool) -> dict[str, Any]:
    """Return the words by name; before a profession they are adjectives."""
    if texts is None:
        return {"neutral": "person", **_DEFAULT[of_professions]}
    found: dict[str, Any] = {}
    for text in texts:
        match = re.fullmatch(r"([^=]+)=([^/]+)(?:/(.+))?", text)
        if not match or match[1] in found:
            raise UserError(
                f"--indicators: expected NAME=WORD, each name once, got {text!r}: write neutral=person feminine=woman"
            )
        found[match[1]] = {"word": match[2], **({"plural": match[3]} if match[3] else {})}
    return found


_DEFAULT = {
    False: {"feminine": "woman", "masculine": "man"},
    True: {"feminine": "female", "masculine": "male"},
}


def _whole(text: str) -> object:
    """Return a number where one is meant; the schema says what is wrong with anything else."""
    return int(text) if re.fullmatch(r"[+-]?\d{1,18}", text) else text


def work(arguments: argparse.Namespace) -> None:
    """Run the command with its parsed arguments."""
    folder = expand(arguments.out, "--out")
    build.require_free(folder, arguments.overwrite)
    of_set = arguments.source in sets.names() and arguments.format in (None, "auto")
    indicators = _indicators(arguments.indicators, of_set and "topics" in sets.read(arguments.source))
    prompts = {"from": arguments.source}
    options: dict[tuple[str, ...], tuple[str, Any]] = {("prompts", "from"): ("source", arguments.source)}
    for name, kind in (
        ("format", str),
        ("column", str),
        ("split", str),
        ("setting", str),
        ("human_words", str),
        ("articles", str),
        ("max_words", _whole),
    ):
        value = getattr(arguments, name)
        if value is not None:
            options[("prompts", name)] = (f"--{name.replace('_', '-')}", kind(value))
    if arguments.limit is not None:
        options[("limit",)] = ("--limit", _whole(arguments.limit))
    if arguments.model is not None:
        options[("model",)] = ("--model", arguments.model)
    data = {
        "name": _name(folder),
        "indicators": indicators,
        "reference": next(iter(indicators)),
        "prompts": prompts,
    }
    config, loaded = build.build(data, options)
    files = build.write(folder, config, loaded, overwrite=arguments.overwrite)
    print(build.shown(config, loaded))
    print(printable(f"wrote {', '.join(map(str, files))}"))
    print(printable(f"next: triptych run {folder / 'triplets.yaml'}"))


def _name(folder: Path) -> str:
    """Return a name for the run, made of its folder's, that the schema takes."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", folder.resolve().name).strip("-._")
    return name[:100] or "captions"
