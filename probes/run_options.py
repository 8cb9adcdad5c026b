"""The options of the command line ``python -m probes.run``, and where each of them stands in ``triplets.yaml``."""

from __future__ import annotations

import argparse

from probes import command_line
from probes.config import schema_text

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
    where.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="workers on Ray that draw and look at images: auto, local, none or host:port",
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
    "cluster": (("cluster", "address"), str),
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
