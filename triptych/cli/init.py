"""``triptych init``: a commented ``triplets.yaml`` to start from.

The files stand in ``triptych/cli/starts``; a further one is a row of `STARTS` and a file there, in which the line
``# common`` stands for words, prompts and seeds (`common.yaml`).
"""

from __future__ import annotations

import argparse
import json
import os
from importlib.resources import files
from pathlib import Path

from probes import command_line

STARTS = {
    "toyworld": "the model that comes with the package",
    "sd15": "Stable Diffusion 1.5",
    "sdxl": "Stable Diffusion XL",
    "sd3": "Stable Diffusion 3",
    "sd35": "Stable Diffusion 3.5",
    "flux": "FLUX.1",
    "flux2": "FLUX.2 klein",
    "qwen": "Qwen-Image",
    "lora": "a LoRA in Stable Diffusion 1.5",
    "xl-lora": "a LoRA in Stable Diffusion XL",
    "gep": "an audit of attributes (GEP)",
    "dalleval": "an audit of professions (DALL-Eval)",
    "folder-of-images": "images of another program",
    "captions": "prompts from captions, or from a set such as professions",
}


def parser() -> command_line.Parser:
    """Return the argument parser of ``triptych init``."""
    main = command_line.Parser(
        prog="triptych init",
        description="Write a short, commented triplets.yaml to start from; it says what to change.",
        epilog="what it is for:\n" + "\n".join(f"  {name:<17} {what}" for name, what in STARTS.items()),
        examples={
            "triptych init --for sd15": "then: triptych plan triplets.yaml",
            "triptych init --from captions_train2017.json": "COCO's captions of one person, made neutral",
        },
    )
    main.add_argument(
        "file",
        type=Path,
        nargs="?",
        default=Path("triplets.yaml"),
        help="file to write (default: triplets.yaml)",
    )
    main.add_argument(
        "--for",
        dest="start",
        choices=STARTS,
        metavar="START",
        help="what the run is to be about, see below (default: toyworld, or captions where --from is given)",
    )
    main.add_argument(
        "--from",
        dest="source",
        metavar="SOURCE",
        help="prompts from a file of captions, or from a set such as professions; with --for captions alone"
        " (default: those of the start)",
    )
    main.add_argument(
        "--column",
        metavar="NAME",
        help="column of SOURCE that holds the captions (default: caption, text, ...)",
    )
    main.add_argument("--overwrite", action="store_true", help="replace the file if there is one")
    return main


def start_text(start: str) -> str:
    """Return the YAML text of a starting configuration by its name in `STARTS`, such as "sdxl"."""
    folder = files("triptych.cli") / "starts"
    text, common = ((folder / f"{name}.yaml").read_text(encoding="utf-8") for name in (start, "common"))
    return text.replace("# common\n", common)


def work(options: argparse.Namespace) -> None:
    """Write a starting ``triplets.yaml``; UserError if the file exists or the options contradict each other."""
    from probes.errors import UserError, printable
    from probes.prompts import sets
    from probes.runs.parts import write_bytes

    path = command_line.writable(options.file)
    start = options.start or ("captions" if options.source else "toyworld")
    if (start != "captions" and options.source) or (options.column and not options.source):
        wrong = "--column" if options.column and not options.source else "--from"
        raise UserError(f"{wrong}: expected a start from captions, got --for {start}: leave one of them out")
    if path.exists() and not options.overwrite:
        raise UserError(
            f"{path}: expected no file yet, found one: name another, or replace it with --overwrite"
        )
    content = start_text(start)
    if options.source:
        content = content.replace(
            "{from: captions.json}", _prompts_section(options.source, options.column, path), 1
        )
        if options.source in sets.names() and "topics" in sets.read(options.source):  # before a profession
            content = content.replace("woman", "female").replace(": man}", ": male}")
    write_bytes(path, content.encode())
    print(printable(f"wrote {path}; next: triptych plan {path}"))


def _prompts_section(source: str, column: str | None, path: Path) -> str:
    """Return the YAML of the section ``prompts`` with a `source` of captions; files relative to `path`'s folder."""
    if Path(source).exists():
        source = os.path.relpath(source, path.parent)
    entries = {"from": source, **({"column": column} if column else {})}
    return "{" + ", ".join(f"{key}: {json.dumps(value)}" for key, value in entries.items()) + "}"
