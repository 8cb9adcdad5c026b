"""The flags of the command line, each over a field of the configuration."""

from __future__ import annotations

from typing import get_args

from probes.config.schema import Config
from triptych.cli.run import config_overrides, parser

LINE = (
    "triplets.yaml --model toyworld --seeds 4 5 --limit 3 --steps 2 --guidance-scale 7 --scheduler ddim"
    " --negative-prompt hat --height 64 --width 32 --out o --device cpu --dtype float32 --batch-triplets auto"
    " --workers 2 --cluster local --until gap --figures pdf,png --gallery all"
)
OF_THE_COMMAND = {"config", "stage", "overwrite", "quiet", "schema", "help"}


def declared(place):
    """Whether a field of the configuration stands at a place."""
    model = Config
    for name in place[:-1]:
        kind = model.model_fields[name].annotation
        model = next(one for one in (kind, *get_args(kind)) if hasattr(one, "model_fields"))
    return place[-1] in model.model_fields


def test_each_flag_comes_to_its_field():
    given = config_overrides(parser().parse_args(LINE.split()))
    assert all(declared(place) for place in given), given
    flags = LINE.split()[1:]
    assert {flag for flag, _ in given.values()} == {word for word in flags if word.startswith("--")}
    assert given["seeds",] == ("--seeds", [4, 5])
    assert given["sampler", "guidance_scale"] == ("--guidance-scale", 7.0)
    assert given["generate", "batch_triplets"] == ("--batch-triplets", "auto")
    assert given["stop", "question"] == ("--until", "gap")
    assert given["cluster", "address"] == ("--cluster", "local")


def test_every_other_flag_is_of_the_command_itself():
    names = {action.dest for action in parser()._actions}
    given = config_overrides(parser().parse_args(LINE.split()))
    assert names - OF_THE_COMMAND == {flag[2:].replace("-", "_") for flag, _ in given.values()}


def test_what_was_not_given_is_left_to_the_file():
    assert config_overrides(parser().parse_args(["triplets.yaml"])) == {}
